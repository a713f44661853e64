/* SPDX-License-Identifier: MIT */
/* test_enhance.c - denoise, restore and upscale as composites: what is refused, and what comes out. */
#include "enhance.h"

static void test_refusals(void)
{
    zn_denoise d = zn_denoise_defaults();
    zn_restore r = zn_restore_defaults();
    zn_upscale u = zn_upscale_defaults();
    zn_enhance_plan plan;
    zn_error err;

    d.model = "worst";
    CHECK(zn_denoise_describe(&plan, session, NULL, &d, 8, 8, 0, &err) == ZN_E_USAGE && strstr(err.text, "'worst'"),
          "'%s'", err.text);
    CHECK(plan.w == 8 && plan.h == 8 && plan.grid.scale == 1, "a refusal has another size");
    d = zn_denoise_defaults();
    d.sigma = NAN;
    CHECK(zn_denoise_describe(&plan, session, NULL, &d, 8, 8, 0, &err) == ZN_E_USAGE && strstr(err.text, "sigma must"),
          "'%s'", err.text);
    r.deblur = -2;
    CHECK(zn_restore_describe(&plan, session, NULL, &r, 8, 8, 0, &err) == ZN_E_USAGE && strstr(err.text, "deblur"),
          "'%s'", err.text);
    u.scale = 5;
    CHECK(zn_upscale_describe(&plan, session, NULL, &u, 8, 8, 0, &err) == ZN_E_USAGE && strstr(err.text, "scale must"),
          "'%s'", err.text);
    u = zn_upscale_defaults();
    u.model = NULL;
    CHECK(zn_upscale_describe(&plan, session, NULL, &u, 8, 8, 0, &err) == ZN_E_USAGE && strstr(err.text, "faithful"),
          "'%s'", err.text);
    u = zn_upscale_defaults();
    CHECK(zn_upscale_describe(&plan, session, NULL, &u, 0, 8, 0, &err) == ZN_E_USAGE && strstr(err.text, "no picture"),
          "'%s'", err.text);
    CHECK(!zn_upscale_describe(&plan, session, NULL, &u, 9, 7, 0, &err) && plan.w == 18 && plan.h == 14, "'%s' %d",
          err.text, plan.w);
    CHECK(zn_enhance_describe(&plan, session, NULL, &(zn_enhance){ .model = "taesd-encode" }, 8, 8, 0, &err),
          "a latent");
}

static void test_what_a_result_depends_on(void)
{
    zn_enhance_plan a, b;

    CHECK(!denoise(&a, 1, 12, 300, 200) && !denoise(&b, 0.5, 12, 300, 200) && a.key.a == b.key.a && !b.nothing,
          "strength runs the network again");
    CHECK(!denoise(&b, 1, 13, 300, 200) && a.key.a != b.key.a && a.network.a == b.network.a, "sigma is not in the key");
    CHECK(!denoise(&b, 0, 12, 300, 200) && b.nothing, "strength 0 does something");
    CHECK(!denoise(&b, 1, 0, 300, 200) && b.how.seeks_noise && b.mapped && b.grid.halo > a.grid.halo && !a.mapped,
          "a measured level has no reach");
    CHECK(strstr(a.computed_by.text, "fp"), "'%s'", a.computed_by.text);
}

/* The result's lightness, but for the edges of the picture: its fine contrast, and how far it leaves what lies around it. */
static double contrast(const picture *p, double *beyond, const picture *around)
{
    double sum = 0;

    *beyond = 0;
    for (int y = 1; y + 1 < p->rgb.h; y++)
        for (int x = 1; x + 1 < p->rgb.w; x++) {
            const size_t at = ((size_t)y * (size_t)p->rgb.w + (size_t)x) * 3 + 1;
            const float *v = p->rgb.data + at;
            float least = 1, most = 0;

            for (int i = 0; i < 9; i++) {
                const float w =
                    around->rgb
                        .data[at + (size_t)((i / 3) * p->rgb.w * 3) - (size_t)(p->rgb.w * 3) + (size_t)(i % 3 * 3) - 3];

                least = fminf(least, w);
                most = fmaxf(most, w);
            }
            sum += fabs((double)(2 * *v - v[3] - v[-3]));
            *beyond = fmax(*beyond, fmax((double)(*v - most), (double)(least - *v)));
        }
    return sum;
}

/* More contrast, no halos; the network does not run again for it. */
static void test_sharpening(void)
{
    const int w = 211, h = 157;
    picture in = scene(w, h), out[2] = { new_picture(w, h), new_picture(w, h) };
    const zn_source source = source_of(&in);
    zn_denoise how = zn_denoise_defaults();
    zn_enhance_result result;
    zn_enhance_plan p[2], q;
    zn_error err = { "" };
    double beyond, before, after;

    how.model = "fast";
    for (int i = 0; i < 2; i++) {
        how.sharpen = i;
        CHECK(!zn_denoise_describe(&p[i], session, NULL, &how, w, h, 0, &err) &&
                  !zn_enhance_run(&result, &p[i], &(zn_sink){ write_picture, &out[i] }, &source,
                                  (zn_rect){ 0, 0, w, h }, NULL, &err),
              "%s", err.text);
    }
    CHECK(p[0].key.a == p[1].key.a && p[0].key.b == p[1].key.b, "sharpening runs the network again");
    before = contrast(&out[0], &beyond, &out[0]);
    after = contrast(&out[1], &beyond, &out[0]);
    CHECK(after > 1.2 * before, "contrast %g became %g", before, after);
    CHECK(beyond < 8 / 255.0, "%g of 255 beyond the values around a pixel", 255 * beyond);
    how.strength = 0;
    CHECK(!zn_denoise_describe(&q, session, NULL, &how, w, h, 0, &err) && !q.nothing, "nothing to do: '%s'", err.text);
    how.sharpen = 2.5;
    CHECK(zn_denoise_describe(&q, session, NULL, &how, w, h, 0, &err) == ZN_E_USAGE && strstr(err.text, "sharpen must"),
          "'%s'", err.text);
    free(in.rgb.data);
    free(out[0].rgb.data);
    free(out[1].rgb.data);
}

typedef struct counted {
    picture *picture;
    uint64_t pixels; /* that were read */
} counted;

static bool read_counted(void *cookie, zn_rect r, float *dst)
{
    counted *c = cookie;

    c->pixels += (uint64_t)r.w * (uint64_t)r.h;
    return read_picture(c->picture, r, dst);
}

/* Where the noise is measured, the places of a small picture are looked at once: beside the measurement, which reads the picture once,
 * a run reads it as it does when the noise is given. */
static void test_noise_once(void)
{
    const int w = 203, h = 157;
    picture in = scene(w, h), out = new_picture(w, h);
    uint64_t pixels[2];

    for (int i = 0; i < 2; i++) {
        counted count = { &in, 0 };
        const zn_source source = { w, h, 3, read_counted, &count };
        zn_enhance_result result;
        zn_enhance_plan p;
        zn_error err = { "" };

        CHECK(!denoise(&p, 1, i ? 0 : 10, w, h) &&
                  !zn_enhance_run(&result, &p, &(zn_sink){ write_picture, &out }, &source, (zn_rect){ 0, 0, w, h },
                                  NULL, &err),
              "%s", err.text);
        CHECK(!result.cells && (result.noise.median[0] > 0) == i, "run %d: %g", i, (double)result.noise.median[0]);
        pixels[i] = count.pixels;
    }
    CHECK(pixels[1] == pixels[0] + (uint64_t)w * (uint64_t)h, "%llu pixels are read, %llu with a given level",
          (unsigned long long)pixels[1], (unsigned long long)pixels[0]);
    free(in.rgb.data);
    free(out.rgb.data);
}

/* Detail comes back where there is texture; what is smooth stays so.  And a part comes out as in the whole. */
static void test_detail(void)
{
    enum { W = 120, H = 60, X = 41, Y = 13, SIDE = 31, AROUND = 6 };
    const zn_rect all = { 0, 0, W, H }, strip = { X, Y, SIDE, SIDE };
    const zn_rect wide = { X - AROUND, Y - AROUND, SIDE + 2 * AROUND, SIDE + 2 * AROUND };
    picture in = new_picture(W, H), change = new_picture(W, H), out = new_picture(W, H), part = new_picture(W, H);
    const zn_plane plane = { all, change.rgb.data };
    const zn_enhance_plan p = { .how = { .strength = 1, .luma = 1, .chroma = 1, .detail = 1 }, .reach = AROUND };
    double left[2] = { 0 };

    zn_noise_fill(change.rgb.data, (size_t)W * H * 3, 3, 0);
    for (int i = 0; i < W * H * 3; i++) { /* the network removes all noise, of 0.1; on the right there are stripes */
        const int x = i / 3 % W;

        change.rgb.data[i] = i % 3 ? change.rgb.data[i - 1] : 0.1f * change.rgb.data[i];
        in.rgb.data[i] = 0.5f + (x < W / 2 ? 0 : 0.1f * sinf(2.1f * (float)x)) - change.rgb.data[i];
    }
    memcpy(out.rgb.data, in.rgb.data, sizeof(float[W * H * 3]));
    CHECK(zn_enhance_blend(&p, all, all, out.rgb.data, 3, &plane), "out of memory");
    for (int i = 0; i < W * H; i++) {
        const int x = i % W;
        const float clean = in.rgb.data[3 * i] + change.rgb.data[3 * i];

        if (abs(x - W / 2) > 8)
            left[x > W / 2] += fabs((double)(out.rgb.data[3 * i] - clean)) / (W * H / 2.0);
    }
    CHECK(left[0] < 1e-4, "smooth: %g comes back", left[0]);
    CHECK(left[1] > 0.03, "stripes: %g comes back", left[1]);
    CHECK(read_picture(&in, wide, part.rgb.data) && zn_enhance_blend(&p, strip, wide, part.rgb.data, 3, &plane),
          "out of memory");
    for (int y = 0; y < SIDE; y++)
        CHECK(!memcmp(part.rgb.data + ((size_t)(y + AROUND) * (SIDE + 2 * AROUND) + AROUND) * 3,
                      out.rgb.data + ((size_t)(Y + y) * W + X) * 3, sizeof(float[SIDE * 3])),
              "row %d of a part", y);
    free(in.rgb.data);
    free(change.rgb.data);
    free(out.rgb.data);
    free(part.rgb.data);
}

static void test_a_clean_picture(void)
{
    const int w = 331, h = 227;
    picture in = clean_scene(w, h), out = new_picture(w, h);
    const zn_source source = source_of(&in);
    zn_enhance_result clean = { .noise = { .clean = 1 } }, noisy = clean;
    zn_key a = { 0, 0 }, b = a;
    zn_enhance_result result;
    zn_enhance_plan p;
    zn_error err = { "" };

    CHECK(!denoise(&p, 1, 0, w, h), "no plan");
    CHECK(!zn_enhance_run(&result, &p, &(zn_sink){ write_picture, &out }, &source, (zn_rect){ 0, 0, w, h }, NULL, &err),
          "%s", err.text);
    CHECK(result.noise.clean == 1 && result.noise.median[1] < 0.5f, "clean %g, noise %g", (double)result.noise.clean,
          (double)result.noise.median[1]);
    CHECK(!memcmp(in.rgb.data, out.rgb.data, zn_array_len(&in.rgb) * sizeof(float)), "it was changed");
    noisy.noise.clean = 0.5f;
    zn_enhance_key_measured(&a, &p, &clean);
    zn_enhance_key_measured(&b, &p, &noisy);
    CHECK(a.a != b.a || a.b != b.b, "a change does not depend on whether there is noise");
    free(in.rgb.data);
    free(out.rgb.data);
}

/* A faded picture comes out as the stretched one would. */
static void test_fading(void)
{
    const int w = 131, h = 97;
    picture in[2] = { scene(w, h), new_picture(w, h) }, out[2] = { new_picture(w, h), new_picture(w, h) };
    zn_restore how = { .deblur = -1, .artefacts = -1, .noise = -1, .strength = 1 };
    zn_enhance_result result = { .ran = false };
    zn_error err = { "" };
    float most = 0, moved = 0;

    for (size_t i = 0; i < zn_array_len(&in[0].rgb); i++)
        in[0].rgb.data[i] = 0.2f + 0.4f * in[0].rgb.data[i];
    for (int k = 0; k < 2; k++) {
        const zn_source source = source_of(&in[k]);
        zn_enhance_plan p;

        how.fading = !k;
        CHECK(!zn_restore_describe(&p, session, NULL, &how, w, h, 0, &err) && p.measured == !k &&
                  !zn_enhance_run(&result, &p, &(zn_sink){ write_picture, &out[k] }, &source, (zn_rect){ 0, 0, w, h },
                                  NULL, &err),
              "%s", err.text);
        for (size_t i = 0; !k && i < zn_array_len(&in[0].rgb); i++) {
            const zn_faults *d = &result.damage;
            const size_t c = i % 3;

            in[1].rgb.data[i] = zn_clean((in[0].rgb.data[i] - d->low[c]) / (d->high[c] - d->low[c]));
        }
    }
    for (size_t i = 0; i < zn_array_len(&in[0].rgb); i++) {
        most = fmaxf(most, fabsf(out[0].rgb.data[i] - out[1].rgb.data[i]));
        moved = fmaxf(moved, fabsf(out[0].rgb.data[i] - in[0].rgb.data[i]));
    }
    CHECK(most < 1e-3f && moved > 0.2f, "they differ by %g; moved by %g", (double)most, (double)moved);
    for (int k = 0; k < 2; k++) {
        free(in[k].rgb.data);
        free(out[k].rgb.data);
    }
}

/* What is found to be sharp is not deblurred: told so, the network makes the same of it. */
static void test_a_sharp_picture_is_told_so(void)
{
    enum { W = 80, H = 72 };
    picture in = scene(W, H), out[2];
    const zn_source source = source_of(&in);

    for (int i = 0; i < 2; i++) {
        const zn_restore how = { .deblur = -i, .strength = 1 };
        zn_enhance_plan p;
        zn_enhance_result result;
        zn_error err = { "" };

        out[i] = new_picture(W, H);
        CHECK(!zn_restore_describe(&p, session, NULL, &how, W, H, 0, &err) &&
                  !zn_enhance_run(&result, &p, &(zn_sink){ write_picture, &out[i] }, &source, (zn_rect){ 0, 0, W, H },
                                  NULL, &err),
              "%s", err.text);
        CHECK(result.damage.blur == -1, "the scene is not sharp");
    }
    CHECK(!memcmp(out[0].rgb.data, out[1].rgb.data, zn_array_len(&in.rgb) * sizeof(float)), "it was deblurred");
    for (int i = 0; i < 2; i++)
        free(out[i].rgb.data);
    free(in.rgb.data);
}

/* A picture without the colours of its noise comes first, unless there is said to be none; a region is part of the whole, to the bit. */
/* What was found is told in words and in numbers, but for settings that are given. */
static void test_what_was_found(void)
{
    static const struct {
        zn_restore how;
        zn_faults damage;
        double blur, artefacts, noise;
        const char *text;
    } cases[] = {
        { { 0, 0, 0, .strength = 1 },
          { .blur = 1.35f, .artefacts = 35, .noise = 4.25f },
          1.35,
          35,
          4.25,
          "blur of 1.35 pixels, JPEG artifacts of 35, noise of 4.25" },
        { { 0, 0, 0, .strength = 1 }, { .blur = -1 }, 0, 0, 0, "no blur, no JPEG artifacts, little noise" },
        { { 0, -1, -1, .strength = 1 }, { .blur = 0, .noise = 9 }, -1, -1, -1, "blur unclear" },
        { { 2, 0, 5, .strength = 1 }, { .blur = 1, .artefacts = 7, .noise = 9 }, -1, 7, -1, "JPEG artifacts of 7" },
        { { 2, 9, 0, .strength = 1 }, { .noise = 0 }, -1, -1, -1, "" }, /* the network alone finds the noise */
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const zn_enhance_result result = { .damage = cases[i].damage };
        zn_enhance_plan plan;
        zn_error err;
        zn_found f;

        CHECK(!zn_restore_describe(&plan, session, NULL, &cases[i].how, 64, 48, 0, &err), "'%s'", err.text);
        zn_enhance_found(&f, &plan, &result);
        CHECK(f.blur == cases[i].blur && f.artefacts == cases[i].artefacts && f.noise == cases[i].noise,
              "%zu: %g %g %g", i, f.blur, f.artefacts, f.noise);
        CHECK(!strcmp(f.text, cases[i].text), "%zu: '%s'", i, f.text);
    }
}

/* What was measured for one task is not taken for another, which needs more. */
static void test_what_a_measurement_is(void)
{
    zn_upscale u = zn_upscale_defaults();
    zn_enhance_plan a, b;

    u.model = "crisp";
    CHECK(!zn_upscale_describe(&a, session, NULL, &u, 64, 48, 0, NULL), "not planned");
    u.artefacts = 20;
    CHECK(!zn_upscale_describe(&b, session, NULL, &u, 64, 48, 0, NULL), "not planned");
    CHECK(a.network.a != b.network.a, "given artefacts were measured");
}

static void test_crisp_sees_less_noise(void)
{
    enum { W = 52, H = 44, LEN = 4 * W * H * 3 };
    static const double noise[] = { 0, 12, -1 };
    const zn_rect roi = { 30, 20, 40, 50 };
    picture in = scene(W, H), part = new_picture(2 * W, 2 * H), whole[3];
    const zn_source source = source_of(&in);
    double coloured[3] = { 0 };

    for (int i = 0; i < 3; i++) {
        const zn_upscale how = { .scale = 2, .model = "crisp", .noise = noise[i] };
        zn_enhance_plan p;
        zn_enhance_result result;
        zn_error err = { "" };

        whole[i] = new_picture(2 * W, 2 * H);
        CHECK(!zn_upscale_describe(&p, session, NULL, &how, W, H, 0, &err) &&
                  !zn_enhance_run(&result, &p, &(zn_sink){ write_picture, &whole[i] }, &source,
                                  (zn_rect){ 0, 0, p.w, p.h }, NULL, &err),
              "%s", err.text);
        CHECK(!zn_enhance_run(&result, &p, &(zn_sink){ write_picture, &part }, &source, roi, NULL, &err), "%s",
              err.text);
        for (int y = roi.y; y < roi.y + roi.h; y++)
            CHECK(!memcmp(part.rgb.data + (y * p.w + roi.x) * 3, whole[i].rgb.data + (y * p.w + roi.x) * 3,
                          (size_t)roi.w * 3 * sizeof(float)),
                  "noise %g: row %d of a region differs", noise[i], y);
        for (int k = 6; k < LEN; k += 3) { /* how much red less green changes from pixel to pixel */
            const float *v = whole[i].rgb.data + k;

            coloured[i] += fabs((double)(v[0] - v[1] - v[-3] + v[-2]));
        }
    }
    CHECK(coloured[0] < 0.8 * coloured[2] && coloured[1] < 0.8 * coloured[2] && coloured[0] != coloured[1],
          "coloured noise: %g measured, %g given, %g left", coloured[0], coloured[1], coloured[2]);
    for (int i = 0; i < 3; i++)
        free(whole[i].rgb.data);
    free(part.rgb.data);
    free(in.rgb.data);
}

/* A clean picture is what the network alone makes of it: it is told of no noise and no artefacts. */
static void test_crisp_leaves_clean_pictures(void)
{
    enum { W = 52, H = 44 };
    picture in = clean_scene(W, H), out[3];
    const zn_source source = source_of(&in);

    for (int i = 0; i < 3; i++) {
        const zn_upscale how = { .scale = 2, .model = "crisp" };
        zn_enhance_plan p;
        zn_enhance_result result;
        zn_error err = { "" };

        out[i] = new_picture(2 * W, 2 * H);
        CHECK(!zn_upscale_describe(&p, session, NULL, &how, W, H, 0, &err), "%s", err.text);
        if (i) { /* 1: the network alone; 2: told all the same */
            p.how.first = NULL;
            p.mapped = false;
            p.how.set[0].value = i == 1 ? 0 : p.how.set[0].value;
            p.how.least[1] = i == 1 ? 0 : p.how.least[1];
        }
        CHECK(!zn_enhance_run(&result, &p, &(zn_sink){ write_picture, &out[i] }, &source, (zn_rect){ 0, 0, p.w, p.h },
                              NULL, &err),
              "%s", err.text);
        CHECK(i || result.noise.clean == 1, "the scene is not clean");
    }
    for (int i = 1; i < 3; i++)
        CHECK(!memcmp(out[0].rgb.data, out[i].rgb.data, zn_array_len(&out[0].rgb) * sizeof(float)) == (i == 1), "%s",
              i == 1 ? "more was told" : "nothing is ever told");
    for (int i = 0; i < 3; i++)
        free(out[i].rgb.data);
    free(in.rgb.data);
}

/* ---- enlarging ------------------------------------------------------------------------------------------------ */

enum { SIDE = 12 };

/* alpha and what is beyond 0..1: equal values stay equal, ramps stay ramps; hidden pixels keep their colour. */
static void test_enlarging(void)
{
    float pixels[SIDE * SIDE * 4], seen[SIDE * SIDE * 3], dst[16 * SIDE * SIDE * 4], change[16 * SIDE * SIDE * 3];
    const zn_rect all = { 0, 0, SIDE, SIDE };

    for (int i = 0; i < SIDE * SIDE; i++) {
        const float p[4] = { 0.25f, 3.5f, (float)(i % SIDE) - 4, 0.75f };

        memcpy(pixels + 4 * i, p, sizeof p);
        for (int c = 0; c < 3; c++)
            seen[3 * i + c] = zn_clean(p[c]);
    }
    pixels[4 * 30 + 3] = 0;
    for (int i = 0; i < 16 * SIDE * SIDE * 3; i++)
        change[i] = 0.125f;
    for (int scale = 2; scale <= 4; scale++) {
        const zn_grid g = { .w = SIDE, .h = SIDE, .scale = scale };
        const zn_rect strip = zn_grid_result(&g, all);
        const zn_plane plane = { strip, change };

        zn_enhance_enlarge(dst, &g, strip, all, pixels, 4, seen, &plane);
        for (int y = 6 * scale; y < strip.h; y++) /* below the hidden one */
            for (int x = 2 * scale; x < strip.w - 2 * scale; x++) {
                const float *p = dst + (y * strip.w + x) * 4, at = ((float)x + 0.5f) / (float)scale - 4.5f;

                CHECK(p[3] == 0.75f && p[0] == 0.375f && p[1] == 3.625f, "x%d: alpha %g, %g %g", scale, (double)p[3],
                      (double)p[0], (double)p[1]);
                CHECK(fabsf(p[2] - 0.125f - at) < 0.75f, "blue %g at %g", (double)p[2], (double)at);
            }
        zn_enhance_enlarge(dst, &g, strip, all, pixels, 4, seen, NULL);
        for (int y = 6 * scale; y < strip.h; y++)
            for (int x = 2 * scale; x < strip.w - 2 * scale; x++) {
                const float *p = dst + (y * strip.w + x) * 4, at = ((float)x + 0.5f) / (float)scale - 4.5f;

                CHECK(p[1] == 3.5f && fabsf(p[2] - at) < 1e-5f, "x%d: %g at %g", scale, (double)p[2], (double)at);
            }
    }
}

/* A hidden pixel is seen as the mean of the visible ones near it, by their alpha; mid-grey where there are none. */
static void test_what_is_seen(void)
{
    const zn_rect all = { 3, 5, 9, 9 }, rect = { 5, 7, 5, 5 };
    float pixels[9 * 9 * 4] = { 0 }, seen[5 * 5 * 3];

    for (int i = 0; i < 9; i++) { /* the middle row, half of it in full */
        float *p = pixels + (4 * 9 + i) * 4;

        p[0] = i < 4 ? 1.5f : 0.25f;
        p[1] = NAN;
        p[2] = 0.5f;
        p[3] = i < 4 ? 1.0f : 0.25f;
    }
    zn_enlarge_see(seen, rect, pixels, all, 4);
    CHECK(seen[2 * 15] == 1 && seen[2 * 15 + 1] == 0 && seen[2 * 15 + 2] == 0.5f, "visible: %g %g",
          (double)seen[2 * 15], (double)seen[2 * 15 + 1]);
    /* column 4: two columns of 1, three of a quarter */
    CHECK(fabsf(seen[6] - (2 + 3 * 0.25f * 0.25f) / 2.75f) < 1e-6f && seen[8] == 0.5f, "mean %g", (double)seen[6]);
    memset(pixels, 0, sizeof pixels);
    zn_enlarge_see(seen, rect, pixels, all, 4);
    CHECK(seen[0] == 0.5f && seen[74] == 0.5f, "nothing is visible: %g", (double)seen[0]);
    zn_enlarge_see(seen, rect, pixels, all, 3);
    CHECK(seen[0] == 0, "no alpha: %g", (double)seen[0]);
}

int main(void)
{
    if (!open_session())
        return 1;
    RUN(test_refusals);
    RUN(test_what_a_result_depends_on);
    RUN(test_sharpening);
    RUN(test_noise_once);
    RUN(test_detail);
    RUN(test_a_clean_picture);
    RUN(test_fading);
    RUN(test_a_sharp_picture_is_told_so);
    RUN(test_what_was_found);
    RUN(test_what_a_measurement_is);
    RUN(test_crisp_sees_less_noise);
    RUN(test_crisp_leaves_clean_pictures);
    RUN(test_enlarging);
    RUN(test_what_is_seen);
    zn_session_close(&session);
    return test_end();
}
