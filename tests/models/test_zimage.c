/* SPDX-License-Identifier: MIT */
/* test_zimage.c - the networks of Z-Image against transformers' and diffusers' (tools/golden_zimage.py): every block, odd
 * sizes, padding; on every engine of this machine. */
#include "../unit/test.h"

#include "compare.h"
#include "pipeline/forward.h"

static const char text_file[] = GOLDEN "zimage_text.safetensors";

static void text(void)
{
    compare(text_file, "z-image-text", (const char *const[]){ "tokens13", NULL }, NULL, "cap13", 1e-4);
    compare(text_file, "z-image-text", (const char *const[]){ "tokens70", NULL }, NULL, "cap70", 1e-4);
}

static void refusals(void)
{
    static const char *const wrong = GOLDEN "denoise.safetensors", *const right = text_file;
    zn_array in = { NULL, 1, 1, 5000 }, out;
    zn_error err = { "" };
    zn_model *m = NULL;

    CHECK(zn_model_open(&m, engine, "z-image-text", &(zn_open){ .files = &wrong, .n_files = 1 }, &err) == ZN_E_FILE &&
              strstr(err.text, "Qwen3"),
          "%s", err.text);
    CHECK(!zn_model_open(&m, engine, "z-image-text", &(zn_open){ .files = &right, .n_files = 1 }, &err), "%s",
          err.text);
    CHECK(zn_model_shape(m, &in, 1, &out, &err) == ZN_E_USAGE, "5000 tokens were taken");
    zn_model_close(&m);
}

int main(void)
{
    static const char *const file = GOLDEN "zimage.golden.safetensors";
    zn_engine_info list[16];
    int n = zn_engine_list(list, 16);
    zn_error err;

    if (zn_weights_open(&golden, &file, 1, &err))
        return fprintf(stderr, "%s\n", err.text), 1;
    for (int e = 0; e < n; e++) {
        if (!list[e].usable || zn_engine_open(&engine, list[e].name, 0, NULL))
            continue;
        RUN(text);
        RUN(refusals);
        zn_engine_close(&engine);
    }
    zn_weights_close(&golden);
    return test_end();
}
