/* SPDX-License-Identifier: MIT */
/* test_enhance_regions.c - denoise, restore and upscale: the contract of tiles, regions, ends, what a front end keeps. */
#include "enhance.h"

/* Task number i of a picture, of n_tasks(): in CI all of N_TASKS, else, and under sanitizers, without the slowest. */
enum { N_TASKS = 7 };
static int n_tasks(void)
{
    return getenv("CI") && !INSTRUMENTED ? N_TASKS : N_TASKS - 1;
}

static zn_status plan_task(zn_enhance_plan *plan, int i, int w, int h)
{
    zn_restore restore = { .dust = 0.5, .fading = 0.7, .strength = 1 };
    zn_upscale upscale = { .scale = i < 5 ? i : 2, .model = i < 5 ? "small" : "crisp" };

    if (i < 2)
        return denoise(plan, i ? 1.4 : 1, i ? 12 : 0, w, h);
    if (i != 5)
        return zn_upscale_describe(plan, session, NULL, &upscale, w, h, 0, NULL);
    return zn_restore_describe(plan, session, NULL, &restore, w, h, 0, NULL);
}

/* ---- the contract of tiles ------------------------------------------------------------------------------------ */

static bool inside(zn_rect a, zn_rect b)
{
    return a.x >= b.x && a.y >= b.y && a.x + a.w <= b.x + b.w && a.y + a.h <= b.y + b.h;
}

static void check_grid(const zn_grid *g, zn_rect roi)
{
    const zn_rect all = { 0, 0, g->w, g->h }, area = zn_grid_area(g, roi), around = zn_grid_around(g, area);
    int64_t pixels = 0;

    CHECK(inside(roi, area) && inside(area, around) && inside(around, all), "%d,%d %dx%d: area %d,%d %dx%d", roi.x,
          roi.y, roi.w, roi.h, area.x, area.y, area.w, area.h);
    CHECK(inside(zn_rect_meet(zn_rect_widen(area, g->halo), all), around), "the halo is not around it");
    CHECK(area.x % g->cell == 0 && area.y % g->cell == 0 && around.x % g->cell == 0, "not on cells");
    for (int y = area.y; y < area.y + area.h; y = zn_grid_next(g, area, y))
        for (int x = area.x; x < area.x + area.w; x = zn_grid_next(g, area, x)) {
            const zn_rect piece = zn_grid_piece(g, area, x, y), cell = zn_grid_cell(g, x, y);

            CHECK(inside(piece, area) && piece.w <= g->tile && piece.h <= g->tile && piece.x % g->cell == 0, "a piece");
            CHECK(cell.x <= x && cell.x + cell.w > x && cell.w <= g->cell && cell.x % g->lattice == 0, "a cell");
            pixels += (int64_t)piece.w * piece.h;
        }
    CHECK(pixels == (int64_t)area.w * area.h, "pieces do not cover the area once");
    CHECK(!memcmp(&(zn_rect){ area.x, area.y, area.w, area.h },
                  &(zn_rect){ zn_grid_source(g, zn_grid_result(g, area)).x, area.y, area.w, area.h }, sizeof area),
          "there and back");
}

static void test_grid(void)
{
    static const int size[][2] = { { 1, 1 }, { 95, 97 }, { 701, 631 }, { 5000, 40 }, { 4000, 3000 } };
    uint32_t seed = 5;

    for (int i = 0; i < N_TASKS; i++)
        for (int j = 0; j < 5; j++) {
            const int w = size[j][0], h = size[j][1];
            zn_enhance_plan p;

            CHECK(!plan_task(&p, i, w, h), "task %d", i);
            CHECK(p.grid.cell % p.grid.lattice == 0 && p.grid.tile % p.grid.cell == 0, "steps of task %d", i);
            for (int k = 0; k < 50; k++) {
                zn_rect r;

                seed = seed * 1664525u + 1013904223u;
                r.x = (int)((seed >> 8) % (uint32_t)w);
                r.y = (int)((seed >> 12) % (uint32_t)h);
                r.w = 1 + (int)((seed >> 4) % (uint32_t)(w - r.x));
                r.h = 1 + (int)((seed >> 10) % (uint32_t)(h - r.y));
                TRY(check_grid(&p.grid, r));
            }
        }
}

/* Of two networks, one after the other. */
static void test_grid_of_autoencoders(void)
{
    static const char *const name[] = { "zenith", "zenith-lite", "zenith-tae", "zenith-f2" };
    const zn_terms terms = { .alone = false };
    zn_error err = { "" };

    for (int i = 0; i < 4; i++) {
        const zn_autoencoder_choice choice = { name[i], NULL };
        const zn_geometry *half[2];
        zn_autoencoder both;
        zn_grid g;

        CHECK(!zn_autoencoder_open(&both, session, ZN_ENCODES | ZN_DECODES, &choice, &terms, NULL, &err), "%s",
              err.text);
        half[0] = zn_model_geometry(zn_use_model(both.encoder));
        half[1] = zn_model_geometry(zn_use_model(both.decoder));
        zn_autoencoder_grid(&g, &both, 701, 631);
        CHECK(g.lattice % half[0]->multiple == 0 && g.lattice % (half[1]->multiple * half[0]->shrink) == 0,
              "%s: a lattice of %d", name[i], g.lattice);
        CHECK(half[0]->halo < 0 || half[1]->halo < 0 || g.halo >= half[0]->halo + half[1]->halo * half[1]->grow,
              "%s: a halo of %d", name[i], g.halo);
        TRY(check_grid(&g, (zn_rect){ 300, 200, 120, 90 }));
        zn_autoencoder_close(&both);
    }
}

/* ---- runs ----------------------------------------------------------------------------------------------------- */

/* Several bands, odd sizes: each region is part of the whole, to the bit. */
static void test_regions(void)
{
    const int w = 131, h = INSTRUMENTED ? 203 : 829;
    picture in = scene(w, h);
    const zn_source source = source_of(&in);

    for (int i = 0; i < n_tasks(); i++) {
        zn_enhance_plan p;
        zn_enhance_result result;
        zn_error err = { "" };
        picture whole, part;

        CHECK(!plan_task(&p, i, w, h), "task %d", i);
        whole = new_picture(p.w, p.h);
        part = new_picture(p.w, p.h);
        CHECK(!zn_enhance_run(&result, &p, &(zn_sink){ write_picture, &whole }, &source, (zn_rect){ 0, 0, p.w, p.h },
                              NULL, &err),
              "task %d: %s", i, err.text);
        CHECK((result.noise.median[0] > 0) == (p.how.seeks_noise || p.how.first) && *result.computed_by.text,
              "task %d: its numbers", i);
        for (int k = 0; k < 3; k++) {
            const zn_rect r = { k * p.w / 7, p.h / 3 + k * 31, p.w / 3 + k, p.h / 4 + k };
            double off = 0;

            CHECK(!zn_enhance_run(&result, &p, &(zn_sink){ write_picture, &part }, &source, r, NULL, &err),
                  "task %d: %s", i, err.text);
            for (int y = r.y; y < r.y + r.h; y++)
                for (int x = 3 * r.x; x < 3 * (r.x + r.w); x++)
                    off = fmax(off,
                               fabs((double)part.rgb.data[(size_t)y * (size_t)p.w * 3 + (size_t)x] -
                                    (double)whole.rgb.data[(size_t)y * (size_t)p.w * 3 + (size_t)x]));
            CHECK(off == 0, "task %d, region %d is %g off", i, k, off);
        }
        free(whole.rgb.data);
        free(part.rgb.data);
    }
    free(in.rgb.data);
}

/* Networks see 0..1: what is beyond is kept, whatever it is, and changes no other pixel of a result of the same size. */
static void test_beyond(void)
{
    static const float odd[] = { 1.5f, -2, 1e30f, -3e38f, 3e38f };
    const int w = 61, h = 47;
    picture in = scene(w, h), cut = scene(w, h);
    const size_t len = zn_array_len(&in.rgb);
    const zn_source sources[] = { source_of(&cut), source_of(&in) };

    for (size_t i = 0; i < len; i += 97) {
        in.rgb.data[i] = odd[i / 97 % 5];
        cut.rgb.data[i] = zn_clean(in.rgb.data[i]);
    }
    for (int i = 0; i < n_tasks(); i++) {
        picture out[2];
        zn_enhance_plan p;
        zn_enhance_result result;
        zn_error err = { "" };

        CHECK(!plan_task(&p, i, w, h), "task %d", i);
        for (int k = 0; k < 2; k++) {
            out[k] = new_picture(p.w, p.h);
            CHECK(!zn_enhance_run(&result, &p, &(zn_sink){ write_picture, &out[k] }, &sources[k],
                                  (zn_rect){ 0, 0, p.w, p.h }, NULL, &err),
                  "task %d: %s", i, err.text);
        }
        for (size_t k = 0; k < zn_array_len(&out[1].rgb); k++) {
            const float was = out[0].rgb.data[k], is = out[1].rgb.data[k];

            CHECK(isfinite(is), "task %d: value %zu is %g", i, k, (double)is);
            if (p.grid.scale == 1 && k % 97)
                CHECK(is == was, "task %d: value %zu is %g, not %g", i, k, (double)is, (double)was);
            else if (p.grid.scale == 1)
                CHECK(fabsf(is - in.rgb.data[k]) <= 1, "task %d: %g becomes %g", i, (double)in.rgb.data[k], (double)is);
        }
        free(out[0].rgb.data);
        free(out[1].rgb.data);
    }
    free(in.rgb.data);
    free(cut.rgb.data);
}

static bool refuse(void *cookie, double done)
{
    (void)cookie;
    return done < 0.3;
}

static void test_ends_early(void)
{
    const zn_watcher watch = { .progress = refuse };
    picture in = scene(200, 150), out = new_picture(400, 300);
    const zn_source source = source_of(&in);
    const zn_sink sink = { write_picture, &out };
    zn_enhance_result result;
    zn_enhance_plan p;
    zn_error err;

    CHECK(!plan_task(&p, 2, 200, 150), "no plan");
    CHECK(zn_enhance_run(&result, &p, &sink, &source, (zn_rect){ 0, 0, 400, 300 }, &watch, &err) == ZN_E_CANCELLED,
          "'%s'", err.text);
    CHECK(zn_enhance_run(&result, &p, &sink, &source, (zn_rect){ 0, 0, 401, 300 }, NULL, &err) == ZN_E_USAGE, "'%s'",
          err.text);
    for (int n = 0; n < 3; n++) {
        in.reads = n;
        CHECK(zn_enhance_run(&result, &p, &sink, &source, (zn_rect){ 0, 0, 400, 300 }, NULL, &err) == ZN_E_FILE &&
                  strstr(err.text, "read"),
              "%d reads: '%s'", n, err.text);
    }
    CHECK(!denoise(&p, 0, 0, 200, 150) &&
              zn_enhance_run(&result, &p, &sink, &source, (zn_rect){ 0, 0, 200, 150 }, NULL, &err) == ZN_E_USAGE,
          "nothing is run");
    free(in.rgb.data);
    free(out.rgb.data);
}

/* ---- what a front end keeps ------------------------------------------------------------------------------------ */

enum { MOST_KEPT = 512 };

typedef struct kept_list {
    struct {
        zn_key key;
        void *data;
        size_t size;
    } list[MOST_KEPT];
    int n, found;
} kept_list;

static bool get_from_list(void *cookie, zn_key key, void *dst, size_t size)
{
    kept_list *k = cookie;

    for (int i = 0; i < k->n; i++)
        if (k->list[i].key.a == key.a && k->list[i].key.b == key.b && k->list[i].size == size) {
            memcpy(dst, k->list[i].data, size);
            k->found++;
            return true;
        }
    return false;
}

static void put_in_list(void *cookie, zn_key key, const void *src, size_t size)
{
    kept_list *k = cookie;

    if (k->n == MOST_KEPT)
        return;
    k->list[k->n].key = key;
    k->list[k->n].size = size;
    k->list[k->n].data = malloc(size);
    memcpy(k->list[k->n++].data, src, size);
}

static void hash_picture(void *cookie, zn_key *keys, const zn_rect *at, size_t n)
{
    const picture *p = cookie;

    for (size_t i = 0; i < n; i++)
        for (int y = at[i].y; y < at[i].y + at[i].h; y++)
            zn_key_add(&keys[i], p->rgb.data + ((size_t)y * (size_t)p->rgb.w + (size_t)at[i].x) * 3,
                       (size_t)at[i].w * 3 * sizeof(float));
}

/* As several threads would: the last part first. */
static void spread_backwards(void (*part)(size_t start, size_t count, void *data), size_t n, void *data)
{
    part(n / 3, n - n / 3, data);
    part(0, n / 3, data);
}

typedef struct taking { /* blends as zn_enhance_run() does */
    const zn_enhance_plan *plan;
    picture *in, out;
    int taken;
} taking;

static bool take_piece(void *cookie, zn_rect want, const zn_plane *change)
{
    taking *t = cookie;
    const zn_enhance_plan *p = t->plan;
    const bool larger = p->grid.scale > 1;
    const zn_rect all =
        zn_rect_meet(zn_rect_widen(zn_grid_source(&p->grid, want), larger ? ZN_ENLARGE_REACH : p->reach),
                     (zn_rect){ 0, 0, p->grid.w, p->grid.h });
    picture part = new_picture(all.w, all.h), made = new_picture(want.w, want.h);

    read_picture(t->in, all, part.rgb.data);
    if (larger)
        zn_enhance_enlarge(made.rgb.data, &p->grid, want, all, part.rgb.data, 3, part.rgb.data, change);
    else {
        zn_enhance_blend(p, want, all, part.rgb.data, 3, change);
        read_picture(&part, (zn_rect){ want.x - all.x, want.y - all.y, want.w, want.h }, made.rgb.data);
    }
    write_picture(&t->out, want, made.rgb.data);
    free(part.rgb.data);
    free(made.rgb.data);
    t->taken += want.w * want.h;
    return true;
}

/* Gives the region's result to t->out, by what is kept. */
static zn_status change_kept(taking *t, zn_rect roi, const zn_watcher *watch, zn_error *err)
{
    const zn_original original = { source_of(t->in), { 1, 2 }, hash_picture, t->in, spread_backwards };
    const zn_taker to = { take_piece, t };
    zn_enhance_result result = { .ran = false };
    zn_status s = ZN_OK;

    if (t->plan->measured)
        s = zn_original_measure(&result, t->plan, &original, (zn_rect){ 0, 0, t->in->rgb.w, t->in->rgb.h }, watch, err);
    if (!s)
        s = zn_original_change(&result, t->plan, &original, roi, &to, watch, err);
    zn_enhance_forget(&result);
    return s;
}

/* What is made piece by piece and kept is what a run makes, to the bit; what is kept is not made again, and a dot runs the
 * network around it alone. */
static void test_kept(void)
{
    const int w = 101;

    for (int i = 0; i < n_tasks(); i++) {
        const int h = i >= 2 && i < 5 ? 301 : 829; /* several tiles of the result */
        kept_list kept = { .n = 0 };
        const zn_keep keep = { get_from_list, put_in_list, &kept };
        const zn_watcher watch = { .keep = &keep };
        picture in, whole;
        zn_enhance_plan p;
        zn_enhance_result result;
        zn_error err = { "" };
        taking t;
        uint64_t runs, pixels;

        if (INSTRUMENTED && i % 3) /* they take ten times as long */
            continue;
        in = scene(w, h);
        CHECK(!plan_task(&p, i, w, h), "task %d", i);
        t = (taking){ &p, &in, new_picture(p.w, p.h), 0 };
        whole = new_picture(p.w, p.h);
        for (int edited = 0; edited < 2; edited++) {
            const zn_source source = source_of(&in);
            const zn_rect all = { 0, 0, p.w, p.h }, some = { p.w / 5, p.h / 3, p.w / 2, p.h / 7 };

            pixels = zn_session_pixels(session);
            CHECK(!change_kept(&t, some, &watch, &err) && !change_kept(&t, all, &watch, &err), "task %d: %s", i,
                  err.text);
            pixels = zn_session_pixels(session) - pixels;
            CHECK(edited ? pixels < (uint64_t)p.w * (uint64_t)p.h : pixels >= (uint64_t)p.w * (uint64_t)p.h,
                  "task %d, %d edits: %llu of %d pixels", i, edited, (unsigned long long)pixels, p.w * p.h);
            CHECK(!zn_enhance_run(&result, &p, &(zn_sink){ write_picture, &whole }, &source, all, NULL, &err),
                  "task %d: %s", i, err.text);
            CHECK(!memcmp(whole.rgb.data, t.out.rgb.data, zn_array_len(&whole.rgb) * sizeof(float)),
                  "task %d, %d edits: not what a run makes", i, edited);
            runs = zn_session_runs(session);
            t.taken = 0;
            CHECK(!change_kept(&t, all, &watch, &err) && zn_session_runs(session) == runs && t.taken == p.w * p.h,
                  "task %d: made again, or %d pixels taken", i, t.taken);
            for (int k = 0; k < 30; k++) /* within what the measured noise is rounded to */
                in.rgb.data[(size_t)(3 * w + k) * 3] = 0;
        }
        for (int k = 0; k < kept.n; k++)
            free(kept.list[k].data);
        free(in.rgb.data);
        free(whole.rgb.data);
        free(t.out.rgb.data);
    }
}

static bool count_calls(void *cookie, double done)
{
    (void)done;
    return --*(int *)cookie > 0;
}

/* Nothing need be kept; who cancels is obeyed while noise is measured and while the network runs; what cannot be read is said. */
static void test_not_kept(void)
{
    picture in = scene(200, 150);
    int calls = 1;
    const zn_watcher watch = { .progress = count_calls, .cookie = &calls };
    const zn_rect roi = { 20, 10, 100, 90 };
    zn_enhance_plan p;
    zn_error err;
    taking t;

    CHECK(!denoise(&p, 1, 0, 200, 150), "no plan");
    t = (taking){ &p, &in, new_picture(200, 150), 0 };
    CHECK(!change_kept(&t, roi, NULL, &err) && t.taken == roi.w * roi.h, "'%s'", err.text);
    CHECK(change_kept(&t, roi, &watch, &err) == ZN_E_CANCELLED && strstr(err.text, "ancel"), "'%s'", err.text);
    CHECK(!denoise(&p, 1, 12, 200, 150), "no plan");
    calls = 2;
    CHECK(change_kept(&t, roi, &watch, &err) == ZN_E_CANCELLED, "'%s'", err.text);
    in.reads = 0;
    CHECK(change_kept(&t, roi, NULL, &err) == ZN_E_FILE, "'%s'", err.text);
    free(in.rgb.data);
    free(t.out.rgb.data);
}

int main(void)
{
    if (!open_session())
        return 1;
    RUN(test_grid);
    RUN(test_grid_of_autoencoders);
    RUN(test_regions);
    RUN(test_beyond);
    RUN(test_ends_early);
    RUN(test_kept);
    RUN(test_not_kept);
    zn_session_close(&session);
    return test_end();
}
