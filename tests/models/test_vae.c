/* SPDX-License-Identifier: MIT */
/* test_vae.c - the autoencoders of image and video generators against their reference implementations
 * (tools/golden_vae.py): small networks with random weights, every naming of their files, odd sizes; on every engine of
 * this machine. */
#include "compare.h"
#include "core/savefile.h"
#include "models/vae/vae.h"
#include "pipeline/model.h"

#include <unistd.h>

static const struct {
    const char *model; /* -encode and -decode */
    const char *file, *golden, *what;
    zn_value set;
} cases[] = {
    { "flux-ae", GOLDEN "kl-flux.pth", "kl-flux", "AutoencoderKL encoder, 6 latent channels", { 0 } },
    { "flux-ae", GOLDEN "kl-flux-original.pth", "kl-flux", "AutoencoderKL encoder, 6 latent channels", { 0 } },
    { "flux-ae",
      GOLDEN "kl-sd.ckpt",
      "kl-sd",
      "AutoencoderKL encoder, 4 latent channels (Stable Diffusion, SDXL)",
      { "scale", 1 } },
    { "wan-vae", GOLDEN "wan21.pth", "wan21", "Wan 2.1 VAE encoder, 16 latent channels", { 0 } },
    { "wan-vae", GOLDEN "wan21-diffusers.pth", "wan21", "Wan 2.1 VAE encoder, 16 latent channels", { 0 } },
    { "wan-vae", GOLDEN "wan22.pth", "wan22", "Wan 2.2 VAE encoder, 48 latent channels", { 0 } },
    { "wan-vae", GOLDEN "wan22-diffusers.pth", "wan22", "Wan 2.2 VAE encoder, 48 latent channels", { 0 } },
    { "wan2d-vae", GOLDEN "wan2d.pth", "wan2d", "2-D Wan VAE encoder of the document, 4 latent channels", { 0 } },
    { "wan2d-vae",
      GOLDEN "wan2d.pth",
      "wan2d-before",
      "2-D Wan VAE encoder of the document, 4 latent channels",
      { "relu", 1 } },
};

enum { N_CASES = sizeof cases / sizeof *cases };
static int current;
static bool slow; /* the scalar engine, beside another of the CPU: it takes the smallest of what is the same for all */

static void run_side(bool decoder)
{
    char id[64], in[64], out[64];

    snprintf(id, sizeof id, "%s-%s", cases[current].model, decoder ? "decode" : "encode");
    snprintf(in, sizeof in, "%s.%s", cases[current].golden, decoder ? "z" : "x");
    snprintf(out, sizeof out, "%s.%s", cases[current].golden, decoder ? "decoded" : "encoded");
    compare(cases[current].file, id, (const char *const[]){ in, NULL }, (const zn_value[]){ cases[current].set, { 0 } },
            out, 1e-4);
}

static void both_sides(void)
{
    run_side(false);
    run_side(true);
}

/* A picture in tiles, with the middle over all of it, is what it is in one piece: on a CPU to the bit. */
static void tiles_of(const char *id, const char *file, zn_array in)
{
    const zn_job whole = { .max_memory = (size_t)1 << 30 }, tiled = { .tile = 1, .max_memory = (size_t)1 << 30 };
    zn_array want = { 0 }, got;
    zn_error err = { "" };
    zn_model *m = NULL;
    zn_plan plan[2];

    in.data = malloc(zn_array_len(&in) * sizeof(float));
    zn_noise_fill(in.data, zn_array_len(&in), 5, 0);
    CHECK(!zn_model_open(&m, engine, id, &(zn_open){ .files = &file, .n_files = 1, .precision = "fp32" }, &err) &&
              !zn_model_shape(m, &in, 1, &want, &err) && !zn_model_plan(m, &in, 1, &whole, &plan[0], &err) &&
              !zn_model_plan(m, &in, 1, &tiled, &plan[1], &err),
          "%s", err.text);
    got = want;
    want.data = calloc(zn_array_len(&want) + 1, sizeof(float));
    got.data = calloc(zn_array_len(&got) + 1, sizeof(float));
    if (!*err.text) {
        CHECK(plan[0].n_tiles == 1 && plan[1].n_tiles > 3, "%d and %d tiles", plan[0].n_tiles, plan[1].n_tiles);
        CHECK(!zn_model_run(m, &in, 1, &want, &whole, &err) && !zn_model_run(m, &in, 1, &got, &tiled, &err), "%s",
              err.text);
        CHECK(relative(got.data, (size_t)got.c, &want) <= (engine->be->remote ? 1e-5 : 0), "%s in tiles is off by %g",
              id, relative(got.data, (size_t)got.c, &want));
    }
    free(in.data);
    free(want.data);
    free(got.data);
    zn_model_close(&m);
}

/* A picture takes one of three taps in time: the others are not kept. */
static void taps_of_a_picture(void)
{
    static const char *const files[] = { GOLDEN "wan21.pth", GOLDEN "wan22-diffusers.pth" };
    static const char *const ids[][2] = { { "wan-vae-encode", "wan-video-encode" },
                                          { "wan-vae-decode", "wan-video-decode" } };

    for (int i = 0; i < 4; i++) {
        size_t bytes[2] = { 0 };

        for (int video = 0; video < 2; video++) {
            zn_error err = { "" };
            zn_model *m = NULL;

            CHECK(!zn_model_open(&m, engine, ids[i / 2][video],
                                 &(zn_open){ .files = &files[i % 2], .n_files = 1, .precision = "fp32" }, &err),
                  "%s", err.text);
            bytes[video] = m ? m->need.weights : 0;
            zn_model_close(&m);
        }
        CHECK(bytes[0] && 7 * bytes[0] < 3 * bytes[1], "%s of %s: %zu bytes, the video's %zu", ids[i / 2][0],
              files[i % 2], bytes[0], bytes[1]);
    }
}

/* Of a picture of 10 megapixels, no more than the bound, be it what it may: 664 MiB in one piece. */
static void memory(void)
{
    static const char *const file = GOLDEN "wan21.pth";
    const zn_array z = { NULL, 400, 400, 16 };
    zn_error err = { "" };
    zn_model *m = NULL;
    zn_plan plan = { 0 };

    CHECK(!zn_model_open(&m, engine, "wan-vae-decode", &(zn_open){ .files = &file, .n_files = 1, .precision = "fp32" },
                         &err),
          "%s", err.text);
    for (size_t mib = 144; m && mib <= 240; mib += 8) {
        const zn_job job = { .max_memory = mib << 20 };

        CHECK(!zn_model_plan(m, &z, 1, &job, &plan, &err) && plan.n_tiles > 4 && plan.peak_bytes <= job.max_memory,
              "%zu MiB: %d tiles of %d, %zu bytes, %s", mib, plan.n_tiles, plan.tile_w, plan.peak_bytes, err.text);
    }
    zn_model_close(&m);
}

/* Networks with attention at every level, or norms over the whole picture, run in one piece, whatever tile the job asks for; a
 * picture that does not fit is refused, and the message says which size fits. */
static void whole_or_refused(const char *id, const char *file, zn_array in)
{
    const zn_job small = { .max_memory = (size_t)8 << 20 }, tiled = { .tile = 1 };
    zn_error err = { "" };
    zn_model *m = NULL;
    zn_plan plan = { 0 };
    const char *at;
    int side = 0, step;

    CHECK(!zn_model_open(&m, engine, id, &(zn_open){ .files = &file, .n_files = 1, .precision = "fp32" }, &err), "%s",
          err.text);
    CHECK(!zn_model_plan(m, &in, 1, &tiled, &plan, &err) && plan.n_tiles == 1, "%s: %d tiles, %s", id, plan.n_tiles,
          err.text);
    CHECK(zn_model_plan(m, &in, 1, &small, &plan, &err) == ZN_E_MEMORY, "%s: %d x %d fits into 8 MiB", id, in.w, in.h);
    at = strchr(err.text, '(') ? strrchr(err.text, '(') : "";
    CHECK(sscanf(at, "(%d x ", &side) == 1 && side > 8 && strstr(at, "would fit"), "%s", err.text);
    in.w = in.h = side;
    CHECK(!zn_model_plan(m, &in, 1, &small, &plan, &err) && plan.peak_bytes <= small.max_memory, "%d: %zu bytes, %s",
          side, plan.peak_bytes, err.text);
    step = m ? m->geometry.multiple : 1;
    in.w = in.h = side + step;
    CHECK(zn_model_plan(m, &in, 1, &small, &plan, &err) == ZN_E_MEMORY, "%d fits, too", in.w);
    zn_model_close(&m);
}

static void refused_with_a_size(void)
{
    whole_or_refused("wan2d-vae-decode", GOLDEN "wan2d.pth", (zn_array){ NULL, 500, 700, 4 });
    whole_or_refused("flux-ae-decode", GOLDEN "kl-flux.pth", (zn_array){ NULL, 200, 150, 6 });
    whole_or_refused("flux-ae-encode", GOLDEN "kl-flux.pth", (zn_array){ NULL, 1000, 1500, 3 });
}

/* Tiles are cut above the engines: at multiples of 12 pixels of the latent, with Winograd of 30.  More of them: test_bits.c. */
static void tiles(void)
{
    const int unit = engine->be->remote || !strcmp(engine->be->name, "scalar") ? 12 : 30;

    tiles_of("wan-vae-decode", GOLDEN "wan21.pth", (zn_array){ NULL, unit + 2, 2 * unit + 7, 16 });
    if (slow)
        return;
    tiles_of("wan-vae-encode", GOLDEN "wan21.pth", (zn_array){ NULL, unit * 8 + 43, unit * 16 + 133, 3 });
    tiles_of("wan-vae-decode", GOLDEN "wan22.pth", (zn_array){ NULL, unit + 1, 2 * unit + 2, 48 });
    tiles_of("wan-vae-encode", GOLDEN "wan22.pth", (zn_array){ NULL, unit * 16 + 33, unit * 32 + 6, 3 });
}

/* The result of a network with random weights, and the memory of its plan; with strips from so many elements on. */
static void run_in_strips(const char *id, const char *file, zn_array in, size_t from, zn_array *out, size_t *peak)
{
    const zn_job job = { .max_memory = (size_t)2 << 30 };
    zn_error err = { "" };
    zn_model *m = NULL;
    zn_plan plan = { 0 };

    const zn_backend *usual = engine->be;
    zn_backend other = *usual;

    other.strips_from = from;
    engine->be = &other;
    CHECK(!zn_model_open(&m, engine, id, &(zn_open){ .files = &file, .n_files = 1, .precision = "fp32" }, &err) &&
              !zn_model_shape(m, &in, 1, out, &err) && !zn_model_plan(m, &in, 1, &job, &plan, &err),
          "%s", err.text);
    *peak = plan.peak_bytes;
    out->data = calloc(zn_array_len(out) + 1, sizeof(float));
    CHECK(!zn_model_run(m, &in, 1, out, &job, &err), "%s", err.text);
    zn_model_close(&m);
    engine->be = usual;
}

/* Tensors of `from` elements or more strip by strip: less memory, and on a CPU the same bits. */
static void strips_of(const char *id, const char *file, zn_array in, size_t from, double less)
{
    zn_array want = { 0 }, got = { 0 };
    size_t whole = 0, strips = 0;

    in.data = malloc(zn_array_len(&in) * sizeof(float));
    zn_noise_fill(in.data, zn_array_len(&in), 6, 0);
    run_in_strips(id, file, in, SIZE_MAX, &want, &whole);
    if (!test_state.why[0])
        run_in_strips(id, file, in, from, &got, &strips);
    if (!test_state.why[0] && engine->be->remote && !(relative(got.data, (size_t)got.c, &want) <= 1e-5))
        test_note(false, "%s in strips is off by %g", id, relative(got.data, (size_t)got.c, &want));
    else if (!test_state.why[0] && !engine->be->remote &&
             memcmp(got.data, want.data, zn_array_len(&want) * sizeof(float)))
        test_note(false, "%s has other bits in strips, off by %g", id, relative(got.data, (size_t)got.c, &want));
    else if (!test_state.why[0] && (double)strips > less * (double)whole)
        test_note(false, "%s: %zu bytes in strips, %zu without", id, strips, whole);
    free(in.data);
    free(want.data);
    free(got.data);
}

static void strips(void)
{
    const size_t from = 4 << 10;

    strips_of("wan-vae-decode", GOLDEN "wan21.pth", (zn_array){ NULL, 27, 5, 16 }, from, 0.8);
    strips_of("flux-ae-decode", GOLDEN "kl-flux.pth", (zn_array){ NULL, 27, 6, 6 }, from, 0.9);
    strips_of("wan2d-vae-decode", GOLDEN "wan2d.pth", (zn_array){ NULL, 13, 3, 4 }, from, 0.9);
    if (slow)
        return;
    strips_of("wan-vae-encode", GOLDEN "wan21.pth", (zn_array){ NULL, 200, 40, 3 }, from, 0.8);
    strips_of("wan-vae-decode", GOLDEN "wan22.pth", (zn_array){ NULL, 13, 5, 48 }, from, 1.1);
    strips_of("wan-vae-encode", GOLDEN "wan22.pth", (zn_array){ NULL, 400, 64, 3 }, from, 1);
    strips_of("flux-ae-encode", GOLDEN "kl-flux.pth", (zn_array){ NULL, 200, 40, 3 }, from, 0.9);
    strips_of("wan2d-vae-encode", GOLDEN "wan2d.pth", (zn_array){ NULL, 208, 48, 3 }, from, 0.9);
    /* 60 rows at a time would leave one: weights of 384x384x3x3 are transformed in each run, of 100 pixels or more */
    if (!INSTRUMENTED)
        strips_of("flux-ae-decode", ZN_RANDOM_WEIGHTS "96", (zn_array){ NULL, 121, 10, 16 }, 60 * 10 * 384, 1);
}

/* Frames of an array in which they lie one below the other. */
typedef struct stack {
    zn_array *a;
    size_t len; /* of a frame */
    int moved;
    const struct stack *results; /* of a source: what is made of it, */
    int frames_in, frames_out;   /* in chunks of so many frames after the first */
} stack;

static bool read_frame(void *cookie, int32_t i, float *frame)
{
    stack *s = cookie;
    const int chunks = (i + s->frames_in - 1) / s->frames_in; /* that end before frame i */
    const int done = chunks ? 1 + (chunks - 1) * s->frames_out : 0;

    if (i != s->moved++ || s->results->moved != done)
        return false;
    memcpy(frame, s->a->data + (size_t)i * s->len, s->len * sizeof *frame);
    return true;
}

static bool write_frame(void *cookie, int32_t i, float *frame)
{
    stack *s = cookie;

    s->moved++;
    memcpy(s->a->data + (size_t)i * s->len, frame, s->len * sizeof *frame);
    return true;
}

static void run_video(const char *id, const char *file, const char *in_name, const char *out_name, int n)
{
    const zn_open open = { .files = &file, .n_files = 1, .precision = "fp32" };
    zn_array in = load(in_name), want = load(out_name), got = want;
    /* read_frame refuses a frame that is read before all of the chunks before it are written */
    const bool encode = !strcmp(id, "wan-video-encode");
    stack to = { .a = &got };
    stack from = { &in, zn_array_len(&in) / (size_t)n, 0, &to, encode ? 4 : 1, encode ? 1 : 4 };
    zn_frames source = { n, in.h / n, in.w, in.c, read_frame, &from }, sink = { .move = write_frame, .cookie = &to };
    zn_error err = { "" };
    zn_model *m = NULL;

    CHECK(!zn_model_open(&m, engine, id, &open, &err) && !zn_model_video_shape(m, &source, &sink, &err), "%s",
          err.text);
    CHECK(sink.n * sink.h == want.h && sink.w == want.w && sink.c == want.c, "%d frames of %d x %d", sink.n, sink.w,
          sink.h);
    got.data = calloc(zn_array_len(&got) + 1, sizeof(float));
    to.len = (size_t)sink.h * (size_t)sink.w * (size_t)sink.c;
    if (m && sink.n * sink.h == want.h) {
        CHECK(!zn_model_run_video(m, &sink, &source, NULL, &err), "%s", err.text);
        CHECK(relative(got.data, (size_t)got.c, &want) <= 1e-4, "%s is off by %g", out_name,
              relative(got.data, (size_t)got.c, &want));
    }
    source.n++;
    source.h++;
    if (m && encode) /* a part of a chunk is a whole one, a part of a latent pixel, too */
        CHECK(!zn_model_video_shape(m, &source, &sink, &err) && sink.n == 4 &&
                  sink.h == in.h / n / m->geometry.shrink + 1,
              "%d frames of %d rows %s", sink.n, sink.h, err.text);
    free(in.data);
    free(want.data);
    free(got.data);
    zn_model_close(&m);
}

/* Chunks of frames with their state, against the reference on the whole video.  Each chunk is written before the next one is
 * read, so that memory does not grow with their number. */
static void video(void)
{
    static const char *const file = GOLDEN "vae-video.golden.safetensors";
    zn_weights *pictures = golden;

    golden = NULL;
    CHECK(!zn_weights_open(&golden, &file, 1, NULL), "no %s", file);
    run_video("wan-video-encode", GOLDEN "wan21.pth", "video.wan21.x", "video.wan21.encoded", 9);
    run_video("wan-video-decode", GOLDEN "wan21.pth", "video.wan21.z", "video.wan21.decoded", 3);
    run_video("wan-video-encode", GOLDEN "wan22.pth", "video.wan22.x", "video.wan22.encoded", 9);
    run_video("wan-video-decode", GOLDEN "wan22-diffusers.pth", "video.wan22.z", "video.wan22.decoded", 3);
    zn_weights_close(&golden);
    golden = pictures;
}

typedef struct recorded { /* frames, one after the other */
    float *data;
    size_t len;
    int most; /* the highest frame that was moved */
} recorded;

static bool from_record(void *cookie, int32_t i, float *frame)
{
    recorded *r = cookie;

    r->most = i;
    memcpy(frame, r->data + (size_t)i * r->len, r->len * sizeof *frame);
    return true;
}

static bool to_record(void *cookie, int32_t i, float *frame)
{
    recorded *r = cookie;

    r->most = i;
    memcpy(r->data + (size_t)i * r->len, frame, r->len * sizeof *frame);
    return true;
}

static zn_frames on_record(recorded *r, zn_frames f, bool reads)
{
    r->len = (size_t)f.h * (size_t)f.w * (size_t)f.c;
    r->data = r->data ? r->data : calloc((size_t)f.n * r->len, sizeof *r->data);
    f.move = reads ? from_record : to_record;
    f.cookie = r;
    return f;
}

static double told;
static bool falls, stops;

static bool on_progress(void *cookie, double done)
{
    (void)cookie;
    falls = falls || done < told - 1e-9;
    told = done;
    return !(stops && done > 0.3);
}

/* There and back in one pass is encode, then decode; made-up weights halve and double the frames; work grows with them; a run that is
 * cancelled ends. */
static void there_and_back(const char *file)
{
    enum { N = 9 };
    const zn_open open = { .files = &file, .n_files = 1, .precision = "fp32" };
    const zn_job job = { .progress = on_progress };
    zn_frames x = { .n = N, .h = 16, .w = 32, .c = 3 }, z = { 0 }, y = { 0 }, five = x;
    recorded rx = { 0 }, rz = { 0 }, ry = { 0 }, rd = { 0 };
    zn_model *enc = NULL, *dec = NULL;
    zn_error err = { "" };
    zn_plan plan[2];

    x = on_record(&rx, x, true);
    zn_noise_fill(rx.data, N * rx.len, 9, 0);
    five.n = 5;
    CHECK(!zn_model_open(&enc, engine, "wan-video-encode", &open, &err) &&
              !zn_model_open(&dec, engine, "wan-video-decode", &open, &err) &&
              !zn_model_video_shape(enc, &x, &z, &err) && !zn_model_video_shape(dec, &z, &y, &err) &&
              !zn_model_video_plan(enc, &x, NULL, &plan[0], &err) &&
              !zn_model_video_plan(enc, &five, NULL, &plan[1], &err),
          "%s", err.text);
    CHECK(z.n == 3 && y.n == N && y.h == x.h && y.w == x.w && y.c == 3, "%d latents, %d frames", z.n, y.n);
    CHECK(plan[0].n_tiles == 3 && plan[1].n_tiles == 2 && plan[0].macs > 1.5 * plan[1].macs &&
              plan[0].peak_bytes == plan[1].peak_bytes,
          "%g multiply-adds, %g of fewer frames", plan[0].macs, plan[1].macs);
    z = on_record(&rz, z, false), y = on_record(&ry, y, false);
    CHECK(!zn_model_run_video(enc, &z, &x, NULL, &err), "%s", err.text);
    z = on_record(&rz, z, true);
    CHECK(!zn_model_run_video(dec, &y, &z, NULL, &err), "%s", err.text);
    y = on_record(&rd, y, false);
    told = 0, falls = stops = false;
    CHECK(!zn_model_pass_video(enc, dec, &y, &x, &job, &err), "%s", err.text);
    CHECK(!memcmp(ry.data, rd.data, N * ry.len * sizeof(float)), "one pass differs");
    CHECK(told == 1 && !falls, "progress ends at %g", told);
    stops = true;
    CHECK(zn_model_pass_video(enc, dec, &y, &x, &job, &err) == ZN_E_CANCELLED && rd.most < N - 1, "frame %d, %s",
          rd.most, err.text);
    zn_model_close(&enc);
    zn_model_close(&dec);
    free(rx.data), free(rz.data), free(ry.data), free(rd.data);
}

/* 7 frames of 13 x 27 are 9 of 16 x 32 whose last frame, row and column are repeated, and come back as 7 of 13 x 27. */
static void odd_video(const char *file)
{
    enum { N = 7, H = 13, W = 27, LEN = H * W * 3, ALL = 9, ALL_H = 16, ALL_W = 32 };
    const zn_open open = { .files = &file, .n_files = 1, .precision = "fp32" };
    const zn_frames small = { .n = N, .h = H, .w = W, .c = 3 }, large = { .n = ALL, .h = ALL_H, .w = ALL_W, .c = 3 };
    recorded from[2] = { { 0 } }, to[2] = { { 0 } };
    zn_frames in[2] = { on_record(&from[0], small, true), on_record(&from[1], large, true) },
              out[2] = { on_record(&to[0], small, false), on_record(&to[1], large, false) };
    zn_model *enc = NULL, *dec = NULL;
    zn_error err = { "" };
    size_t wrong = 0;

    zn_noise_fill(from[0].data, (size_t)N * LEN, 5, 0);
    for (int i = 0; i < ALL * ALL_H * ALL_W * 3; i++) {
        const int c = i % 3, x = i / 3 % ALL_W, y = i / 3 / ALL_W % ALL_H, n = i / 3 / ALL_W / ALL_H;

        from[1].data[i] =
            from[0].data[(n < N ? n : N - 1) * LEN + ((y < H ? y : H - 1) * W + (x < W ? x : W - 1)) * 3 + c];
    }
    CHECK(!zn_model_open(&enc, engine, "wan-video-encode", &open, &err) &&
              !zn_model_open(&dec, engine, "wan-video-decode", &open, &err) &&
              !zn_model_pass_video(enc, dec, &out[0], &in[0], NULL, &err) &&
              !zn_model_pass_video(enc, dec, &out[1], &in[1], NULL, &err),
          "%s", err.text);
    for (int i = 0; i < N * LEN; i++) {
        const int c = i % 3, x = i / 3 % W, y = i / 3 / W % H, n = i / LEN;

        wrong += to[0].data[i] != to[1].data[((n * ALL_H + y) * ALL_W + x) * 3 + c];
    }
    CHECK(!wrong && to[0].most == N - 1, "%zu values differ, frame %d was the last", wrong, to[0].most);
    CHECK(zn_model_pass_video(enc, dec, &out[1], &in[0], NULL, &err) == ZN_E_USAGE &&
              strstr(err.text, "7 frames of 27 x 13"),
          "%s", err.text);
    zn_model_close(&enc);
    zn_model_close(&dec);
    for (int i = 0; i < 2; i++)
        free(from[i].data), free(to[i].data);
}

static void video_passes(void)
{
    odd_video(GOLDEN "wan22.pth");
    odd_video(ZN_RANDOM_WEIGHTS "8");
    there_and_back(GOLDEN "wan21.pth");
    there_and_back(GOLDEN "wan22.pth");
    there_and_back(ZN_RANDOM_WEIGHTS "8");
}

/* A narrow flux-ae with made-up weights; frees in. */
static void run_flux(zn_array *result, const char *id, zn_array in, zn_value set)
{
    static const char *const made_up = ZN_RANDOM_WEIGHTS "32";
    const zn_job job = { .set = &set, .n_set = set.key != NULL };
    zn_array out = { 0 };
    zn_error err = { "" };
    zn_model *m = NULL;

    CHECK(!zn_model_open(&m, engine, id, &(zn_open){ .files = &made_up, .n_files = 1, .precision = "fp32" }, &err) &&
              !zn_model_shape(m, &in, 1, &out, &err),
          "%s", err.text);
    out.data = calloc(zn_array_len(&out) + 1, sizeof(float));
    *result = out;
    CHECK(m && !zn_model_run(m, &in, 1, &out, &job, &err), "%s", err.text);
    zn_model_close(&m);
    free(in.data);
}

static zn_array noise(int h, int w, int c, float scale, float shift)
{
    zn_array a = { NULL, h, w, c };

    a.data = malloc(zn_array_len(&a) * sizeof(float));
    zn_noise_fill(a.data, zn_array_len(&a), 3, 0);
    for (size_t i = 0; i < zn_array_len(&a); i++)
        a.data[i] = a.data[i] / scale + shift;
    return a;
}

/* Latents of 16 channels are FLUX.1's own, (z - 0.1159) * 0.3611, in both directions. */
static void latents_scaled(void)
{
    zn_array z = { 0 }, raw = { 0 };

    run_flux(&z, "flux-ae-encode", noise(16, 24, 3, 1, 0), (zn_value){ 0 });
    run_flux(&raw, "flux-ae-encode", noise(16, 24, 3, 1, 0), (zn_value){ "scale", 1 });
    CHECK(z.data && raw.data && z.h == 2 && z.w == 3 && z.c == 16, "a latent of %d x %d x %d", z.h, z.w, z.c);
    for (size_t i = 0; i < zn_array_len(&raw); i++)
        raw.data[i] = (raw.data[i] - 0.1159f) * 0.3611f;
    CHECK(relative(z.data, (size_t)z.c, &raw) <= 1e-5, "encoded, off by %g", relative(z.data, (size_t)z.c, &raw));
    free(z.data);
    free(raw.data);
    run_flux(&z, "flux-ae-decode", noise(2, 3, 16, 1, 0), (zn_value){ 0 });
    run_flux(&raw, "flux-ae-decode", noise(2, 3, 16, 0.3611f, 0.1159f), (zn_value){ "scale", 1 });
    CHECK(z.data && raw.data && z.h == 16 && relative(z.data, (size_t)z.c, &raw) <= 1e-5, "decoded, off by %g",
          relative(z.data, (size_t)z.c, &raw));
    free(z.data);
    free(raw.data);
}

/* `zenith info` recognises files. */
static void recognised(void)
{
    for (int i = 0; i < N_CASES; i++) {
        zn_weights *w = NULL;
        char what[96] = "", id[64];
        zn_error err = { "" };
        const char *found;

        CHECK(!zn_weights_open(&w, &cases[i].file, 1, &err), "%s", err.text);
        found = w ? zn_weights_recognise(w, what, sizeof what) : NULL;
        snprintf(id, sizeof id, "%s-encode", cases[i].model);
        CHECK(found && !strcmp(found, id) && !strcmp(what, cases[i].what), "%s is %s, %s", cases[i].file,
              found ? found : "unknown", what);
        zn_weights_close(&w);
    }
}

/* A copy of a file in which the variances of channel 0 are above the clamp, and those of channel 1 below it; NAME is what gives
 * means and variances.  swapped: variances first. */
static bool write_moments(const char *to, const char *from, const char *name, bool swapped, zn_error *err)
{
    zn_weights *w = NULL;
    bool ok = !zn_weights_open(&w, &from, 1, err);
    const int n = ok ? zn_weights_count(w) : 0;
    zn_save_tensor *list = calloc((size_t)n + 1, sizeof *list);
    const size_t len = strlen(name);

    for (int i = 0; i < n; i++) {
        const zn_weight_info t = zn_weights_info(w, i);
        const zn_entry *e = zn_weights_get(w, t.name);
        const size_t all = zn_entry_len(e), half = all / 2, z = (size_t)t.shape[0] / 2;
        float *data = malloc((all + half) * sizeof *data);

        ok = ok && !zn_entry_read(e, data, err);
        list[i] = (zn_save_tensor){ .name = t.name, .n_dims = t.n_dims, .data = data };
        memcpy(list[i].shape, t.shape, sizeof list[i].shape);
        if (strncmp(t.name, name, len) || t.name[len] != '.')
            continue;
        if (!strcmp(t.name + len, ".bias"))
            data[z] += 200, data[z + 1] -= 200;
        memcpy(data + all, data, half * sizeof *data);
        if (swapped) {
            memcpy(data, data + half, half * sizeof *data);
            memcpy(data + half, data + all, half * sizeof *data);
        }
    }
    ok = ok && !zn_save_tensors(to, list, (size_t)n, NULL, err);
    for (int i = 0; i < n; i++)
        free((float *)list[i].data);
    free(list);
    zn_weights_close(&w);
    return ok;
}

/* The latent of a picture of these weights. */
static bool encode(zn_array *z, const char *id, const char *file, const zn_array *x, const zn_value *set, int n_set,
                   zn_error *err)
{
    const zn_job job = { .set = set, .n_set = n_set };
    zn_model *m = NULL;
    bool ok = !zn_model_open(&m, engine, id, &(zn_open){ .files = &file, .n_files = 1, .precision = "fp32" }, err) &&
        !zn_model_shape(m, x, 1, z, err);

    z->data = ok ? malloc(zn_array_len(z) * sizeof *z->data) : NULL;
    ok = ok && !zn_model_run(m, x, 1, z, &job, err);
    zn_model_close(&m);
    return ok;
}

/* A draw is mean + exp(clamp(logvar) / 2) noise; of Wan, normalised.  The same seed gives the same one. */
static void posterior(void)
{
    static const struct {
        const char *id, *file, *name;
        float shift, deviation; /* of channel 0 */
        zn_value scale;
    } of[] = {
        { "flux-ae-encode", GOLDEN "kl-flux.pth", "encoder.conv_out", 0, 1, { 0 } },
        { "flux-ae-encode", GOLDEN "kl-sd.ckpt", "first_stage_model.quant_conv", 0, 1, { "scale", 1 } },
        { "flux-ae-encode", GOLDEN "kl-sd.ckpt", "first_stage_model.quant_conv", 0, 2, { "scale", 0.5 } },
        { "wan-vae-encode", GOLDEN "wan21.pth", "conv1", -0.7571f, 2.8184f, { 0 } },
        { "wan2d-vae-encode", GOLDEN "wan2d.pth", "encoder.conv_out", 0, 1, { 0 } },
    };
    char path[2][64] = { "/tmp/zenith-moments-XXXXXX", "/tmp/zenith-moments-XXXXXX" };
    zn_array x = { malloc(48 * 32 * 3 * sizeof(float)), 32, 48, 3 };

    close(mkstemp(path[0])), close(mkstemp(path[1]));
    zn_noise_fill(x.data, zn_array_len(&x), 3, 0);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const zn_value set[] = { { "sample", 1 }, { "seed", 7 }, of[i].scale };
        const int n = of[i].scale.key ? 3 : 2;
        zn_array mean = { 0 }, logvar = { 0 }, drawn = { 0 }, again = { 0 }, other = { 0 };
        zn_error err = { "" };
        float *noise = NULL;
        double worst = 0;
        bool differ = false;

        CHECK(write_moments(path[0], of[i].file, of[i].name, false, &err) &&
                  write_moments(path[1], of[i].file, of[i].name, true, &err) &&
                  encode(&mean, of[i].id, path[0], &x, set + 2, n - 2, &err) &&
                  encode(&logvar, of[i].id, path[1], &x, set + 2, n - 2, &err) &&
                  encode(&drawn, of[i].id, path[0], &x, set, n, &err) &&
                  encode(&again, of[i].id, path[0], &x, set, n, &err) &&
                  encode(&other, of[i].id, path[0], &x, (const zn_value[]){ set[0], { "seed", 8 }, set[2] }, n, &err),
              "%s: %s", of[i].id, err.text);
        noise = malloc((zn_array_len(&mean) + 1) * sizeof *noise);
        zn_noise_fill(noise, zn_array_len(&mean), 7, 0);
        for (size_t j = 0; !*err.text && j < zn_array_len(&mean); j++) {
            const double d = (double)of[i].deviation, l = (double)logvar.data[j] * d + (double)of[i].shift;
            const double spread = exp(fmin(fmax(l, -30), 20) / 2) / d;
            const double off = fabs((double)drawn.data[j] - (double)mean.data[j] - spread * (double)noise[j]);

            if (j % (size_t)mean.c == 0 || strcmp(of[i].name, "conv1"))
                worst = fmax(worst, off / (1 + spread));
            differ = differ || other.data[j] != drawn.data[j];
        }
        CHECK(worst <= 1e-4, "%s of %s: a draw is off by %g", of[i].id, of[i].name, worst);
        CHECK(differ && !memcmp(again.data, drawn.data, zn_array_len(&drawn) * sizeof(float)), "%s: seeds", of[i].id);
        free(mean.data), free(logvar.data), free(drawn.data), free(again.data), free(other.data);
        free(noise);
    }
    unlink(path[0]), unlink(path[1]);
    free(x.data);
}

/* Wrong files and wrong channels give error messages; odd sizes are mirrored up to whole latent pixels. */
static void refusals(void)
{
    static const char *const files[] = { GOLDEN "kl-flux.pth" };
    static const struct {
        const char *id, *file, *says;
    } bad[] = {
        { "flux-ae-encode", GOLDEN "denoise.safetensors", "AutoencoderKL's encoder" },
        { "flux-ae-decode", GOLDEN "denoise.safetensors", "AutoencoderKL's decoder" },
        { "flux-ae-decode", GOLDEN "wan21.pth", "AutoencoderKL's decoder" },
        { "wan-vae-encode", GOLDEN "kl-flux.pth", "Wan VAE's encoder" },
        { "wan-vae-decode", GOLDEN "kl-sd.ckpt", "Wan VAE's decoder" },
        { "wan2d-vae-decode", GOLDEN "wan21.pth", "2-D Wan VAE, decoder" },
    };
    zn_array x = { NULL, 21, 26, 3 }, z = { NULL, 4, 4, 5 }, out = { 0 };
    zn_error err = { "" };
    zn_model *m = NULL;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(zn_model_open(&m, engine, bad[i].id, &(zn_open){ .files = &bad[i].file, .n_files = 1 }, &err) ==
                      ZN_E_FILE &&
                  strstr(err.text, bad[i].says),
              "%s: %s", bad[i].id, err.text);
    CHECK(!zn_model_open(&m, engine, "flux-ae-encode", &(zn_open){ .files = files, .n_files = 1 }, &err), "%s",
          err.text);
    CHECK(m && !zn_model_shape(m, &x, 1, &out, &err) && out.h == 6 && out.w == 7 && out.c == 6, "%dx%dx%d, %s", out.h,
          out.w, out.c, err.text);
    x.data = calloc(zn_array_len(&x), sizeof(float));
    out.data = calloc(zn_array_len(&out), sizeof(float));
    CHECK(m && !zn_model_run(m, &x, 1, &out, NULL, &err), "%s", err.text);
    zn_model_close(&m);
    CHECK(!zn_model_open(&m, engine, "flux-ae-decode", &(zn_open){ .files = files, .n_files = 1 }, &err), "%s",
          err.text);
    CHECK(m && zn_model_shape(m, &z, 1, &out, &err) == ZN_E_USAGE && strstr(err.text, "6 channels"), "%s", err.text);
    zn_model_close(&m);
    free(x.data);
    free(out.data);
}

int main(void)
{
    static const char *const file = GOLDEN "vae.golden.safetensors";
    zn_engine_info list[16];
    int n = zn_engine_list(list, 16), n_cpu = 0;
    zn_error err;

    for (int e = 0; e < n; e++)
        n_cpu += list[e].usable && strcmp(list[e].name, "cuda") && strcmp(list[e].name, "vulkan");
    if (zn_weights_open(&golden, &file, 1, &err))
        return fprintf(stderr, "%s\n", err.text), 1;
    RUN(recognised);
    for (int e = 0; e < n; e++) {
        if (!list[e].usable || zn_engine_open(&engine, list[e].name, 0, NULL))
            continue;
        slow = !strcmp(list[e].name, "scalar") && n_cpu > 1;
        for (current = 0; current < N_CASES; current++) {
            char name[128];

            snprintf(name, sizeof name, "%s%s%s on %s", strrchr(cases[current].file, '/') + 1,
                     cases[current].set.key ? " with " : "", cases[current].set.key ? cases[current].set.key : "",
                     list[e].name);
            test_run(name, both_sides);
        }
        RUN(video);
        RUN(video_passes);
        RUN(taps_of_a_picture);
        RUN(latents_scaled);
        RUN(posterior);
        RUN(tiles);
        RUN(strips);
        RUN(memory);
        RUN(refused_with_a_size);
        RUN(refusals);
        zn_engine_close(&engine);
    }
    zn_weights_close(&golden);
    return test_end();
}
