/* SPDX-License-Identifier: MIT */
/* test_generate.c - the composite `generate`, as far as no network runs: what is refused, what may change, what a result
 * depends on, precisions and memory, the mask, and settings as text. */
#include "test.h"

#include "pipeline/generate.h"

#include <stdlib.h>

static zn_session *session;

static zn_generate random_weights(void)
{
    zn_generate how = zn_generate_defaults();

    how.weights = ZN_RANDOM_WEIGHTS;
    how.prompt = "a fox";
    return how;
}

static zn_status describe(zn_generate_plan *plan, const zn_generate *how, int w, int h, const zn_rect *mask,
                          zn_error *err)
{
    static const zn_choice scalar = { .engine = "scalar", .n_threads = 1 };

    return zn_generate_describe(plan, session, &scalar, how, w, h, mask, err);
}

/* An engine that starts in a thread: who needs it waits, a session that is closed meanwhile does, too; one that is not there is refused
 * when it is needed. */
static void test_starting(void)
{
    static const char *const names[] = { "scalar", "auto", "nobody's" };
    zn_session *own = NULL;
    zn_planned planned;
    zn_error err;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int waits = 0; waits < 2; waits++) {
            const zn_choice choice = { .engine = names[i], .n_threads = 1 };
            const zn_array x = { NULL, 16, 16, 3 };

            CHECK(!zn_session_open(&own, &err), "%s", err.text);
            zn_session_start(own, &choice);
            zn_session_start(own, &choice);
            if (waits)
                CHECK(!zn_session_plan(&planned, own, "taesd-encode", ZN_RANDOM_WEIGHTS,
                                       &(zn_terms){ .choice = choice }, &x, 1, NULL, &err) == (i < 2),
                      "%s: %s", names[i], err.text);
            zn_session_close(&own);
        }
}

/* ---- settings ------------------------------------------------------------------------------------------------- */

static void test_settings_as_text(void)
{
    static const struct {
        const char *text, *why; /* NULL: accepted */
    } each[] = {
        { "prompt=a=b", NULL },
        { "seed=4294967295", NULL },
        { "steps=12", NULL },
        { "change=0.25", NULL },
        { "feather=1e1", NULL },
        { "seed=4294967296", "must be a number from 0" },
        { "seed=-1", "must be a number from 0" },
        { "steps=0", "steps must be a number from 1 to 100, not '0'" },
        { "steps=1.5", "steps must be a whole number, not '1.5'" },
        { "change=nan", "not 'nan'" },
        { "change=0,5", "not '0,5'" },
        { "change", "not ''" },
        { "chang=1", "generate has no setting 'chang'" },
        { "=1", "generate has no setting ''" },
        { "", "generate has no setting ''" },
    };
    zn_generate how = zn_generate_defaults();
    char text[300];
    zn_error err;

    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        const zn_status s = zn_field_set(&how, zn_generate_fields, "generate", each[i].text, &err);

        CHECK(s == (each[i].why ? ZN_E_USAGE : ZN_OK) && (!s || strstr(err.text, each[i].why)), "%s: %d, %s",
              each[i].text, s, s ? err.text : "");
    }
    CHECK(!strcmp(how.prompt, "a=b") && how.seed == UINT32_MAX && how.steps == 12 && how.change == 0.25 &&
              how.feather == 10,
          "other values were set");
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    CHECK(zn_field_set(&how, zn_generate_fields, "generate", text, &err) == ZN_E_USAGE, "a long key");
}

/* ---- describe --------------------------------------------------------------------------------------------------- */

static void test_what_is_refused(void)
{
    zn_generate how = random_weights();
    zn_generate_plan plan;
    zn_error err;

    how.prompt = "";
    CHECK(describe(&plan, &how, 0, 0, NULL, &err) == ZN_E_USAGE && strstr(err.text, "no prompt"), "'%s'", err.text);
    CHECK(plan.w == 1024 && plan.h == 1024, "a refusal has no size");
    how.prompt = "a fox";
    how.steps = 101;
    CHECK(describe(&plan, &how, 0, 0, NULL, &err) == ZN_E_USAGE && strstr(err.text, "steps must be a number"), "'%s'",
          err.text);
    how.steps = 8;
    how.feather = NAN;
    CHECK(describe(&plan, &how, 0, 0, NULL, &err) == ZN_E_USAGE && strstr(err.text, "feather"), "'%s'", err.text);
    how.feather = 0;
    how.weights = "/nowhere";
    CHECK(describe(&plan, &how, 0, 0, NULL, &err) == ZN_E_FILE && strstr(err.text, "/nowhere"), "'%s'", err.text);
}

/* Where the networks look: at everything, or at the mask and a quarter of its size around it, at least 64 pixels. */
static void test_what_may_change(void)
{
    static const struct {
        int w, h;
        zn_rect mask, change; /* mask.w 0: none */
    } each[] = {
        { 0, 0, { 0, 0, 0, 0 }, { 0, 0, 1024, 1024 } },
        { 500, 300, { 0, 0, 0, 0 }, { 0, 0, 500, 300 } },
        { 5000, 3000, { 1000, 900, 100, 80 }, { 936, 836, 228, 208 } },
        { 5000, 3000, { 1000, 900, 800, 80 }, { 800, 700, 1200, 480 } },
        { 5000, 3000, { -50, 2950, 100, 100 }, { 0, 2886, 114, 114 } },
        { 500, 300, { 700, 0, 50, 50 }, { 0, 0, 500, 300 } }, /* beside the picture: nothing will change */
        { 500, 300, { INT32_MIN, INT32_MIN, INT32_MAX, INT32_MAX }, { 0, 0, 500, 300 } },
    };
    zn_generate how = random_weights();
    zn_generate_plan plan;
    zn_error err;

    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        const zn_rect *mask = each[i].mask.w ? &each[i].mask : NULL, *want = &each[i].change;

        CHECK(!describe(&plan, &how, each[i].w, each[i].h, mask, &err), "%s", err.text);
        CHECK(!memcmp(&plan.change, want, sizeof *want) && plan.has_input == (each[i].w > 0), "case %zu: %d,%d %dx%d",
              i, plan.change.x, plan.change.y, plan.change.w, plan.change.h);
    }
    how.change = 0;
    CHECK(!describe(&plan, &how, 500, 300, NULL, &err) && plan.nothing, "change 0 does something");
    CHECK(!describe(&plan, &how, 0, 0, NULL, &err) && !plan.nothing, "a new picture does not depend on change");
}

static void test_what_a_result_depends_on(void)
{
    const zn_generate base = random_weights();
    zn_generate how[15];
    zn_generate_plan plan;
    zn_key key[16];
    zn_error err;

    for (int i = 0; i < 15; i++)
        how[i] = base;
    how[1].prompt = "a hen";
    how[2].seed++;
    how[3].steps++;
    how[4].width++;
    how[5].height++;
    how[6].change = 0.5;
    how[7].feather++;
    how[8].n++;
    how[9].left++;
    how[10].top++;
    how[11].right++;
    how[12].bottom++;
    how[13].scale++;
    how[14].refine = 0.5;
    for (int i = 0; i < 15; i++) {
        CHECK(!describe(&plan, &how[i], 0, 0, NULL, &err), "%s", err.text);
        key[i] = plan.key;
    }
    CHECK(!zn_generate_describe(&plan, session, &(zn_choice){ .engine = "scalar", .precision = "int4" }, &base, 0, 0,
                                NULL, &err),
          "%s", err.text);
    key[15] = plan.key;
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < i; j++)
            CHECK(memcmp(&key[i], &key[j], sizeof key[i]), "%d and %d have one key", j, i);
    CHECK(!describe(&plan, &base, 0, 0, NULL, &err) && !memcmp(&key[0], &plan.key, sizeof plan.key), "%s", err.text);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* The published sizes in fp32 take 26 GB; with less, fewer bits; with less still, streamed.  Nothing is loaded. */
static void test_precisions_that_fit(void)
{
    static const struct {
        const char *memory, *text, *transformer;
        bool keeps, streamed;
    } each[] = {
        { "64G", "fp32", "fp32", true, false },  { "25000", "fp32", "fp32", false, false },
        { "12G", "int8", "int8", true, false },  { "5000", "int8", "int4", false, false },
        { "2600", "fp32", "fp32", false, true },
    };
    zn_generate how = random_weights();
    zn_generate_plan plan;
    zn_note note;
    zn_error err;

    how.prompt = NULL;                                                           /* the longest */
    for (size_t i = INSTRUMENTED ? 4 : 0; i < sizeof each / sizeof *each; i++) { /* counting takes long then */
        note.text[0] = 0;
        setenv("ZENITH_MEMORY", each[i].memory, 1);
        CHECK(!describe(&plan, &how, 0, 0, NULL, &err), "%s", err.text);
        CHECK(!zn_generate_weigh(&plan, &note, &err), "%s: %s", each[i].memory, err.text);
        CHECK(!strcmp(plan.network[0].precision, each[i].text) &&
                  !strcmp(plan.network[1].precision, each[i].transformer) && plan.keeps == each[i].keeps &&
                  plan.need.streamed == each[i].streamed && !plan.network[3].name,
              "%s: other choices", each[i].memory);
        CHECK(!strstr(note.text, "rounded to") == !strcmp(each[i].transformer, "fp32"), "the note is '%s'", note.text);
    }
    setenv("ZENITH_MEMORY", "500", 1);
    CHECK((INSTRUMENTED && !getenv("CI")) ||
              (zn_generate_weigh(&plan, &note, &err) == ZN_E_MEMORY && strstr(err.text, "z-image-text")),
          "'%s'", err.text);
    unsetenv("ZENITH_MEMORY");
}

/* An input is encoded where it counts: with a mask, or if it may not change altogether. */
static void test_the_networks_of_a_change(void)
{
    const zn_rect mask = { 10, 10, 50, 50 };
    zn_generate how = random_weights();
    zn_generate_plan plan;
    zn_error err;

    if (INSTRUMENTED)
        SKIP("counting takes long");
    how.prompt = NULL;
    CHECK(!describe(&plan, &how, 200, 200, NULL, &err) && !zn_generate_weigh(&plan, NULL, &err), "%s", err.text);
    CHECK(!plan.network[3].name, "an input that does not count is encoded");
    CHECK(!describe(&plan, &how, 200, 200, &mask, &err) && !zn_generate_weigh(&plan, NULL, &err), "%s", err.text);
    CHECK(plan.network[3].name && !plan.network[4].name, "the input is not encoded");
    how.change = 0.5;
    CHECK(!describe(&plan, &how, 200, 200, NULL, &err) && !zn_generate_weigh(&plan, NULL, &err), "%s", err.text);
    CHECK(plan.network[3].name, "the input is not encoded");
}

/* Pictures at once: as many as 4096 tokens are, and all of them where layers are read from disk. */
static void test_pictures_at_once(void)
{
    static const struct {
        const char *memory;
        int side, n, batch;
    } each[] = { { "64G", 512, 6, 4 }, { "64G", 1024, 2, 1 }, { "3500", 1024, 3, 3 } };

    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        zn_generate how = random_weights();
        zn_generate_work k = { .n_tokens = 100 };
        zn_generate_plan plan;
        zn_note note = { "" };
        zn_error err;

        if (INSTRUMENTED && i)
            return; /* counting takes long */
        setenv("ZENITH_MEMORY", each[i].memory, 1);
        how.width = how.height = each[i].side;
        how.n = each[i].n;
        CHECK(!describe(&plan, &how, 0, 0, NULL, &err), "%s", err.text);
        zn_generate_begin(&k, &plan);
        k.canvas = (zn_canvas){ .out_w = plan.w, .out_h = plan.h, .part = { 0, 0, plan.w, plan.h } };
        zn_canvas_set_size(&k.canvas, &how);
        CHECK(!zn_generate_choose(&k, &note, &err), "%s", err.text);
        CHECK(k.batch == each[i].batch, "case %zu: %d at once", i, k.batch);
    }
    unsetenv("ZENITH_MEMORY");
}

static void test_runs_that_were_not_planned(void)
{
    zn_generate how = random_weights();
    zn_array out = { (float[3 * 16 * 16]){ 0 }, 16, 16, 3 };
    zn_generate_result result;
    zn_generate_plan plan;
    zn_error err;

    how.width = how.height = 32;
    CHECK(!describe(&plan, &how, 0, 0, NULL, &err), "%s", err.text);
    CHECK(zn_generate_run(&result, &plan, NULL, NULL, &out, NULL, &err) == ZN_E_USAGE && strstr(err.text, "planned"),
          "'%s'", err.text);
    how.width = how.height = 16;
    how.prompt = NULL;
    CHECK(!describe(&plan, &how, 0, 0, NULL, &err), "%s", err.text);
    CHECK(zn_generate_run(&result, &plan, NULL, NULL, &out, NULL, &err) == ZN_E_USAGE, "ran without a prompt");
    how.prompt = "a fox"; /* made-up weights have no tokenizer */
    CHECK(!describe(&plan, &how, 0, 0, NULL, &err), "%s", err.text);
    CHECK(zn_generate_run(&result, &plan, NULL, NULL, &out, NULL, &err) == ZN_E_FILE && *err.text, "ran");
    CHECK(!zn_session_enter(session, &err), "the turn was not given back");
    zn_session_leave(session);
}

/* ---- the picture and the mask ------------------------------------------------------------------------------------- */

enum { W = 300, H = 200 };

static bool read_box(void *cookie, zn_rect r, float *dst)
{
    const zn_rect *box = cookie;

    for (int y = r.y; y < r.y + r.h; y++)
        for (int x = r.x; x < r.x + r.w; x++)
            *dst++ = x >= box->x && x < box->x + box->w && y >= box->y && y < box->y + box->h ? 1 : 0;
    return true;
}

/* Inside, the mask rises over the feather's pixels; outside it is 0. */
static void test_a_feather(void)
{
    zn_rect box = { 100, 60, 80, 60 }, all = { 0, 0, W, H };
    const zn_source mask = { W, H, 1, read_box, &box };
    zn_canvas v = { .out_w = W, .out_h = H, .part = all };
    bool empty;
    zn_error err;

    CHECK(!zn_canvas_read_mask(&v, &empty, &mask, all, 7, false, &err) && !empty, "%s", err.text);
    CHECK(v.part.x == 36 && v.part.y == 0 && v.part.w == 208 && v.part.h == 184, "it sees %d,%d %dx%d", v.part.x,
          v.part.y, v.part.w, v.part.h);
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            const int dx = x - 100 < 179 - x ? x - 100 : 179 - x, dy = y - 60 < 119 - y ? y - 60 : 119 - y;
            const int d = (dx < dy ? dx : dy) + 1;
            const float t = (float)d / 8, want = d <= 0 ? 0 : d >= 8 ? 1 : t * t * (3 - 2 * t);

            CHECK(fabsf(v.mask[y * W + x] - want) < 1e-6f, "%d,%d: %g, not %g", x, y, (double)v.mask[y * W + x],
                  (double)want);
        }
    zn_canvas_free(&v);
    box.w = 0;
    v = (zn_canvas){ .out_w = W, .out_h = H, .part = all };
    CHECK(!zn_canvas_read_mask(&v, &empty, &mask, all, 7, false, &err) && empty, "an empty mask is not");
    zn_canvas_free(&v);
}

static bool read_ramp(void *cookie, zn_rect r, float *dst)
{
    (void)cookie;
    for (int y = r.y; y < r.y + r.h; y++)
        for (int x = r.x; x < r.x + r.w; x++, dst += 3)
            dst[0] = (float)x, dst[1] = (float)y, dst[2] = 7;
    return true;
}

/* Beside an input its edge goes on, and everything is painted; the soft edge is inside of the input. */
static void test_a_larger_canvas(void)
{
    enum { LEFT = 50, TOP = 9, IN_W = 200, IN_H = 150 };
    const zn_source in = { IN_W, IN_H, 3, read_ramp, NULL };
    zn_extended e = { &in, NULL, { LEFT, TOP, IN_W, IN_H } };
    const zn_rect all = { 0, 0, W, H };
    const zn_source around = { W, H, 1, zn_extended_around, &e };
    static float picture[W * H * 3];
    zn_canvas v = { .out_w = W, .out_h = H, .part = all };
    zn_generate how = random_weights();
    zn_generate_plan plan;
    bool empty;
    zn_error err;

    CHECK(zn_extended_read(&e, all, picture), "it cannot be read");
    CHECK(!zn_canvas_read_mask(&v, &empty, &around, all, 7, true, &err) && !empty, "%s", err.text);
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            const int ix = x - LEFT, iy = y - TOP;
            const int cx = ix < 0 ? 0 : ix < IN_W ? ix : IN_W - 1, cy = iy < 0 ? 0 : iy < IN_H ? iy : IN_H - 1;
            const bool known = ix == cx && iy == cy;
            const bool deep = ix >= 7 && ix < IN_W - 7 && iy >= 7 && iy < IN_H - 7;
            const float *p = picture + 3 * (y * W + x), m = v.mask[y * W + x];

            CHECK(p[0] == (float)cx && p[1] == (float)cy && p[2] == 7, "%d,%d: %g,%g", x, y, (double)p[0],
                  (double)p[1]);
            CHECK(known ? deep ? m == 0 : m > 0 : m == 1, "%d,%d: %g is painted", x, y, (double)m);
        }
    zn_canvas_free(&v);
    how.left = LEFT;
    how.bottom = 30;
    CHECK(!describe(&plan, &how, IN_W, IN_H, NULL, &err), "%s", err.text);
    CHECK(plan.w == IN_W + LEFT && plan.h == IN_H + 30 && plan.place.x == LEFT && !plan.place.y && plan.extends &&
              !plan.adds && plan.change.w == plan.w && plan.change.h == plan.h,
          "%dx%d, the input at %d,%d", plan.w, plan.h, plan.place.x, plan.place.y);
    how.change = 0;
    CHECK(!describe(&plan, &how, IN_W, IN_H, NULL, &err) && !plan.nothing, "change 0 does not extend");
    how.scale = 2;
    CHECK(describe(&plan, &how, IN_W, IN_H, NULL, &err) == ZN_E_USAGE && strstr(err.text, "as a whole"), "'%s'",
          err.text);
}

/* Tiles cover the picture, overlap, and leave no seam: equal ones make one picture, and a step between two is spread. */
static void test_tiles(void)
{
    static const struct {
        int w, h, side, n;
    } each[] = {
        { 64, 64, 64, 1 }, { 100, 64, 64, 2 }, { 400, 170, 64, 32 }, { 513, 64, 128, 6 }, { 300, 300, 1024, 1 }
    };
    static float picture[400 * 300 * 3], tile[1024 * 128 * 3];

    for (size_t k = 0; k < sizeof each / sizeof *each; k++) {
        const int w = each[k].w, h = each[k].h;
        zn_generate_plan plan = { .how = { .width = each[k].side, .height = each[k].side }, .w = w, .h = h };
        const zn_tiles t = zn_generate_tiles(&plan);
        int most = 0;

        CHECK(zn_tiles_count(t) == each[k].n, "case %zu: %d tiles", k, zn_tiles_count(t));
        for (int i = 0; i < w * h * 3; i++)
            picture[i] = 0.9f;
        for (int i = 0; i < zn_tiles_count(t); i++) {
            const zn_rect at = zn_tile_at(t, i);

            CHECK(at.x % 16 == 0 && at.y % 16 == 0 && at.x >= 0 && at.y >= 0 && at.w > 0 && at.h > 0 &&
                      at.w <= t.side_w && at.h <= t.side_h && at.x + at.w <= w && at.y + at.h <= h,
                  "tile %d: %d,%d %dx%d", i, at.x, at.y, at.w, at.h);
            for (int j = 0; j < 128 * 1024 * 3 && at.h <= 128; j++)
                tile[j] = i ? 0.5f : 0.25f;
            if (at.h <= 128)
                zn_tile_put(picture, t, i, tile, 1024);
            most = at.x + at.w > most ? at.x + at.w : most;
        }
        CHECK(most == w, "case %zu ends at %d", k, most);
        for (int i = 0; i < w * h * 3 && each[k].side <= 128; i++)
            CHECK(picture[i] >= 0.25f && picture[i] <= 0.5f, "case %zu: pixel %d is %g", k, i / 3, (double)picture[i]);
        for (int x = 1; x < w && each[k].n == 2; x++)
            CHECK(fabsf(picture[3 * x] - picture[3 * (x - 1)]) < 0.05f, "a seam at %d", x);
    }
}

/* A ramp goes to the networks' size and back; what is outside of the part is 0. */
static void test_there_and_back(void)
{
    static const int limit[] = { 4096, 96 }; /* padded; scaled */
    static float old[40 * 50 * 3], out[60 * 70 * 3];
    zn_generate how = zn_generate_defaults();

    for (int i = 0; i < 40 * 50 * 3; i++)
        old[i] = (float)(i / 3 % 50 + i / 150) / 90;
    for (int k = 0; k < 2; k++) {
        zn_canvas v = { .out_w = 70, .out_h = 60, .part = { 10, 8, 50, 40 } };
        float *x;
        double worst = 0;

        how.width = limit[k];
        how.height = k ? 16 : 4096;
        zn_canvas_set_size(&v, &how);
        CHECK(v.w % 16 == 0 && v.h % 16 == 0 && v.scaled == k, "%dx%d", v.w, v.h);
        CHECK(k ? v.w * v.h <= 96 * 16 : v.w == 64 && v.h == 48, "%dx%d", v.w, v.h);
        x = malloc((size_t)v.w * (size_t)v.h * 3 * sizeof *x);
        CHECK(zn_canvas_to_network(x, &v, old, 3) && zn_canvas_put(out, &v, x), "out of memory");
        for (int y = 0; y < 60; y++)
            for (int c = 0; c < 70 * 3; c++) {
                const bool inside = y >= 8 && y < 48 && c >= 30 && c < 180;
                const double want = inside ? (double)old[(y - 8) * 150 + c - 30] : 0;

                worst = fmax(worst, fabs((double)out[y * 210 + c] - want));
            }
        free(x);
        CHECK(worst <= (k ? 0.05 : 0), "%g off", worst);
    }
}

int main(void)
{
    if (zn_session_open(&session, NULL))
        return 1;
    RUN(test_starting);
    RUN(test_settings_as_text);
    RUN(test_what_is_refused);
    RUN(test_what_may_change);
    RUN(test_what_a_result_depends_on);
    RUN(test_precisions_that_fit);
    RUN(test_the_networks_of_a_change);
    RUN(test_pictures_at_once);
    RUN(test_runs_that_were_not_planned);
    RUN(test_a_feather);
    RUN(test_a_larger_canvas);
    RUN(test_tiles);
    RUN(test_there_and_back);
    zn_session_close(&session);
    return test_end();
}
