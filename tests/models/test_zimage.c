/* SPDX-License-Identifier: MIT */
/* test_zimage.c - the networks of Z-Image against transformers' and diffusers' (tools/golden_zimage.py): every block, odd
 * sizes, padding; on every engine of this machine. */
#include "../unit/test.h"

#include "compare.h"
#include "pipeline/forward.h"

#include <unistd.h>

static const char text_file[] = GOLDEN "zimage_text.safetensors";

/* A copy of a safetensors file with parts of its tensors' names replaced: pairs of strings, NULL ends.  Returns its path. */
static const char *renamed(const char *file, const char *const *pairs)
{
    static char path[64];
    FILE *f = fopen(file, "rb"), *out;
    static char head[1 << 16], next[1 << 17];
    uint64_t n = 0;
    int c;

    snprintf(path, sizeof path, "/tmp/zenith-names-%d.safetensors", (int)getpid());
    out = fopen(path, "wb");
    if (!f || !out || fread(&n, 8, 1, f) != 1 || n >= sizeof head || fread(head, 1, n, f) != n)
        return "";
    head[n] = 0;
    for (; pairs[0]; pairs += 2) {
        char *from = head, *to = next, *at;

        for (; (at = strstr(from, pairs[0])); from = at + strlen(pairs[0]))
            to += sprintf(to, "%.*s%s", (int)(at - from), from, pairs[1]);
        strcpy(to, from);
        if (strlen(next) >= sizeof head)
            return "";
        strcpy(head, next);
    }
    n = strlen(head);
    fwrite(&n, 8, 1, out);
    fwrite(head, 1, n, out);
    while ((c = getc(f)) != EOF)
        putc(c, out);
    fclose(f);
    return fclose(out) ? "" : path;
}

static void names(void)
{
    static const char *const mlx[] = { "all_x_embedder.2-1",
                                       "x_embedder",
                                       "all_final_layer.2-1.linear",
                                       "final_layer.linear",
                                       "all_final_layer.2-1.adaLN_modulation.1",
                                       "final_layer.adaLN_modulation.layers.1",
                                       "t_embedder.mlp.0",
                                       "t_embedder.linear1",
                                       "t_embedder.mlp.2",
                                       "t_embedder.linear2",
                                       "cap_embedder.",
                                       "cap_embedder.layers.",
                                       "to_out.0",
                                       "to_out",
                                       "adaLN_modulation.0",
                                       "adaLN_modulation",
                                       NULL };
    static const char *const gguf[] = { "model.embed_tokens",
                                        "token_embd",
                                        "model.layers.",
                                        "blk.",
                                        "input_layernorm",
                                        "attn_norm",
                                        "post_attention_layernorm",
                                        "ffn_norm",
                                        "self_attn.q_proj",
                                        "attn_q",
                                        "self_attn.k_proj",
                                        "attn_k",
                                        "self_attn.v_proj",
                                        "attn_v",
                                        "self_attn.o_proj",
                                        "attn_output",
                                        "self_attn.q_norm",
                                        "attn_q_norm",
                                        "self_attn.k_norm",
                                        "attn_k_norm",
                                        "mlp.gate_proj",
                                        "ffn_gate",
                                        "mlp.up_proj",
                                        "ffn_up",
                                        "mlp.down_proj",
                                        "ffn_down",
                                        "model.norm",
                                        "output_norm",
                                        NULL };
    static const char *const bare[] = { "model.", "", NULL };

    const char *path = renamed(GOLDEN "zimage_dit.safetensors", mlx);

    compare(path, "z-image-dit", (const char *const[]){ "odd.x", "odd.t", "odd.cap", NULL }, NULL, "odd.y", 1e-4);
    compare(renamed(text_file, gguf), "z-image-text", (const char *const[]){ "tokens13", NULL }, NULL, "cap13", 1e-4);
    compare(renamed(text_file, bare), "z-image-text", (const char *const[]){ "tokens13", NULL }, NULL, "cap13", 1e-4);
    remove(path);
}

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

/* One evaluation of the transformer. */
static void evaluate(zn_model *dit, float *y, const zn_array *x, const zn_array *cap, float time)
{
    const zn_array in[] = { *x, { &time, 1, 1, 1 }, *cap };
    zn_array out = { y, x->h, x->w, x->c };
    zn_error err = { "" };

    CHECK(!zn_model_run(dit, in, 3, &out, NULL, &err), "%s", err.text);
}

/* From a picture's latent, inside of a mask: the formulas of pipeline/z_image.c, around single evaluations. */
static void changes(void)
{
    enum { LEFT = 3 };
    static const double sigma[LEFT + 1] = { .642857142857, .5, .3, 0 };
    static const char *const file = GOLDEN "zimage_dit.safetensors";
    static const zn_value set[] = { { "steps", 8 }, { "change", 0.375 } };
    const zn_job job = { .set = set, .n_set = 2 };
    zn_array in[4] = { load("noise"), load("odd.cap"), load("odd.x"), { NULL, 6, 10, 1 } }, out = in[0];
    const size_t len = zn_array_len(&in[0]);
    float *x = malloc(len * sizeof *x), *v = malloc(len * sizeof *v), mask[60];
    zn_model *dit = NULL, *sample = NULL;
    zn_error err = { "" };

    for (int i = 0; i < 60; i++)
        mask[i] = i % 10 < 3 ? 0 : i % 10 > 6 ? 1 : (float)(i % 10 - 2) / 5;
    in[3].data = mask;
    out.data = malloc(len * sizeof *out.data);
    CHECK(!zn_model_open(&dit, engine, "z-image-dit", &(zn_open){ .files = &file, .n_files = 1 }, &err) &&
              !zn_model_open(&sample, engine, "z-image-sample", &(zn_open){ .files = &file, .n_files = 1 }, &err),
          "%s", err.text);
    for (int masked = 0; masked < 2; masked++) {
        double worst = 0, kept = 0;

        for (size_t i = 0; i < len; i++)
            x[i] = (float)(sigma[0] * (double)in[0].data[i] + (1 - sigma[0]) * (double)in[2].data[i]);
        for (int k = 0; k < LEFT; k++) {
            const double to = sigma[k + 1];

            evaluate(dit, v, &(zn_array){ x, 6, 10, 16 }, &in[1], (float)(1 - sigma[k]));
            for (size_t i = 0; i < len; i++) {
                const double m = masked ? (double)mask[i / 16] : 1;
                const double keep = to * (double)in[0].data[i] + (1 - to) * (double)in[2].data[i];

                x[i] = (float)(m * ((double)x[i] - (to - sigma[k]) * (double)v[i]) + (1 - m) * keep);
            }
        }
        CHECK(!zn_model_run(sample, in, 3 + masked, &out, &job, &err), "%s", err.text);
        for (size_t i = 0; i < len; i++) {
            worst = test_larger(worst, fabs((double)out.data[i] - (double)x[i]));
            if (masked && mask[i / 16] == 0)
                kept = fmax(kept, fabs((double)out.data[i] - (double)in[2].data[i]));
        }
        CHECK(worst < 1e-4, "%s mask the latent is off by %g", masked ? "with a" : "without a", worst);
        CHECK(kept == 0, "outside of the mask the latent changed by %g", kept);
    }
    CHECK(zn_model_run(sample, in, 2, &out, &job, &err) == ZN_E_USAGE && strstr(err.text, "start"), "%s", err.text);
    for (int i = 0; i < 3; i++)
        free(in[i].data);
    free(out.data);
    free(x);
    free(v);
    zn_model_close(&dit);
    zn_model_close(&sample);
}

static struct {
    int n, h, w, c;
    bool finite;
} shown;

static void show(void *cookie, const zn_array *picture, int step, int n_steps)
{
    (void)cookie, (void)step, (void)n_steps;
    shown.n++;
    shown.h = picture->h;
    shown.w = picture->w;
    shown.c = picture->c;
    shown.finite = true;
    for (size_t i = 0; i < zn_array_len(picture); i++)
        shown.finite = shown.finite && isfinite(picture->data[i]);
}

/* A sampler's estimates: as latents, and as what a small decoder makes of them; the result is the same. */
static void previews(void)
{
    static const char *const file = GOLDEN "zimage_dit.safetensors", *const tiny = GOLDEN "taef1_decoder.safetensors";
    zn_array in[] = { load("noise"), load("odd.cap") }, out[2] = { in[0], in[0] };
    const size_t size = zn_array_len(&in[0]) * sizeof(float);
    zn_model *sample = NULL, *decoder = NULL;
    zn_plan plan[2];
    zn_error err = { "" };

    CHECK(!zn_model_open(&sample, engine, "z-image-sample", &(zn_open){ .files = &file, .n_files = 1 }, &err) &&
              !zn_model_open(&decoder, engine, "taesd-decode", &(zn_open){ .files = &tiny, .n_files = 1 }, &err),
          "%s", err.text);
    for (int i = 0; i < 2; i++) {
        const zn_job job = { .preview = show, .preview_every = 1, .preview_with = i ? decoder : NULL };

        out[i].data = malloc(size);
        memset(&shown, 0, sizeof shown);
        CHECK(!zn_model_plan(sample, in, 2, &job, &plan[i], &err) && !zn_model_run(sample, in, 2, &out[i], &job, &err),
              "%s", err.text);
        CHECK(shown.n == 7 && shown.h == (i ? 48 : 6) && shown.w == (i ? 80 : 10) && shown.c == (i ? 3 : 16) &&
                  shown.finite,
              "%d estimates of %dx%dx%d", shown.n, shown.h, shown.w, shown.c);
    }
    CHECK(!memcmp(out[0].data, out[1].data, size), "the preview changed the result");
    CHECK(plan[1].peak_bytes > plan[0].peak_bytes + decoder->need.weights, "the decoder's memory was not counted");
    for (int i = 0; i < 2; i++) {
        free(in[i].data);
        free(out[i].data);
    }
    zn_model_close(&decoder);
    zn_model_close(&sample);
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
        RUN(names);
        RUN(transformer);
        RUN(blocks);
        RUN(sampler);
        RUN(changes);
        RUN(previews);
        RUN(refusals);
        zn_engine_close(&engine);
    }
    zn_weights_close(&golden);
    return test_end();
}
