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

/* Padding tokens on both sides, and none; the layouts of diffusers and of single files. */
static void transformer(void)
{
    static const char *const files[] = { GOLDEN "zimage_dit.safetensors", GOLDEN "zimage_single.safetensors" };

    for (int i = 0; i < 2; i++) {
        compare(files[i], "z-image-dit", (const char *const[]){ "odd.x", "odd.t", "odd.cap", NULL }, NULL, "odd.y",
                1e-4);
        compare(files[i], "z-image-dit", (const char *const[]){ "even.x", "even.t", "even.cap", NULL }, NULL, "even.y",
                1e-4);
    }
}

/* Eight steps of the scheduler with shift 3. */
static void sampler(void)
{
    compare(GOLDEN "zimage_dit.safetensors", "z-image-sample", (const char *const[]){ "noise", "odd.cap", NULL }, NULL,
            "sample8", 1e-4);
}

static int seen;

static void watch(void *cookie, const char *name, zn_tensor x)
{
    char key[128];
    zn_array want;

    snprintf(key, sizeof key, "%s.%s", (const char *)cookie, name);
    want = load(key);
    if (want.data) {
        double d = relative(x.data, (size_t)x.ld, &want);

        CHECK(x.h == want.h && x.w == want.w && x.c == want.c && d <= 1e-4, "%s is off by %g", name, d);
        seen++;
    }
    free(want.data);
}

/* A model on a context of the test's own, that sees every block's result. */
static void watch_blocks(const char *file, const char *id, const char *const *inputs, const char *kind, int n_blocks)
{
    const zn_open open = { .files = &file, .n_files = 1 };
    zn_model *m = NULL;
    zn_error err = { "" };
    zn_arena arena = { .size = (size_t)16 << 20 };
    char what[16];
    zn_ctx c = {
        .be = engine->be, .dev = engine->dev, .arena = &arena, .err = &err, .watch = watch, .watch_cookie = what
    };
    zn_call call = { .n_out = 1 };
    zn_array in[ZN_MAX_PORTS];

    snprintf(what, sizeof what, "%s", kind);
    CHECK(!zn_model_open(&m, engine, id, &open, &err), "%s", err.text);
    arena.base = engine->be->alloc(engine->dev, arena.size);
    for (; inputs[call.n_in]; call.n_in++) {
        zn_array *a = &in[call.n_in];

        *a = load(inputs[call.n_in]);
        call.in[call.n_in] = zn_new_of(&c, ZN_F32, 1, a->h, a->w, a->c);
        zn_upload(&c, call.in[call.n_in], a->data);
    }
    if (m->arch->shape(m->net, call.in, call.n_in, call.out))
        call.out[0] = zn_new_of(&c, ZN_F32, 1, call.out[0].h, call.out[0].w, call.out[0].c);
    seen = 0;
    zn_call_net(&c, m, &call);
    for (int i = 0; i < call.n_in; i++)
        free(in[i].data);
    engine->be->free(engine->dev, arena.base);
    zn_model_close(&m);
    CHECK(!c.status && seen == n_blocks, "%d blocks seen, not %d; %s", seen, n_blocks, err.text);
}

static void blocks(void)
{
    if (engine->be->remote)
        SKIP("a watcher reads host memory");
    watch_blocks(text_file, "z-image-text", (const char *const[]){ "tokens13", NULL }, "text", 3);
    watch_blocks(GOLDEN "zimage_dit.safetensors", "z-image-dit",
                 (const char *const[]){ "odd.x", "odd.t", "odd.cap", NULL }, "dit", 4);
}

static void refusals(void)
{
    static const char *const wrong = GOLDEN "denoise.safetensors", *const right = text_file,
                             *const dit = GOLDEN "zimage_dit.safetensors";
    static const zn_array pairs[][2] = { { { NULL, 5, 6, 16 }, { NULL, 9, 1, 40 } }, /* half a patch */
                                         { { NULL, 6, 6, 4 }, { NULL, 9, 1, 40 } },
                                         { { NULL, 6, 6, 16 }, { NULL, 9, 1, 41 } },
                                         { { NULL, 6, 6, 16 }, { NULL, 1505, 1, 40 } },
                                         { { NULL, 6, 1026, 16 }, { NULL, 9, 1, 40 } } };
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
    CHECK(zn_model_open(&m, engine, "z-image-dit", &(zn_open){ .files = &right, .n_files = 1 }, &err) == ZN_E_FILE &&
              strstr(err.text, "transformer"),
          "%s", err.text);
    CHECK(!zn_model_open(&m, engine, "z-image-sample", &(zn_open){ .files = &dit, .n_files = 1 }, &err), "%s",
          err.text);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        CHECK(zn_model_shape(m, pairs[i], 2, &out, &err) == ZN_E_USAGE, "sizes %zu were taken", i);
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
        RUN(transformer);
        RUN(blocks);
        RUN(sampler);
        RUN(refusals);
        zn_engine_close(&engine);
    }
    zn_weights_close(&golden);
    return test_end();
}
