/* SPDX-License-Identifier: MIT */
/* test_face.c - the composite `face`, with the tiny network of tests/data/golden (pictures of 32 x 32, codes of 24 numbers) and
 * attributes made up here. */
#include "test.h"

#include "pipeline/face.h"

#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define MODEL ZN_SOURCE_ROOT "/tests/data/golden/diffae.ckpt"

enum { CODE = 24, SIDE = 32, W = 120, H = 100 };

static zn_session *session;
static const zn_choice choice = { .n_threads = 2, .precision = "fp32" };
static char folder[] = "/tmp/zenith-test-face-XXXXXX";
static float first[W * H * 3], second[W * H * 3];

/* ---- pictures and files ------------------------------------------------------------------------------------------ */

static bool read_picture(void *cookie, zn_rect r, float *dst)
{
    for (int y = 0; y < r.h; y++)
        memcpy(dst + (size_t)y * (size_t)r.w * 3, (const float *)cookie + ((size_t)(r.y + y) * W + (size_t)r.x) * 3,
               (size_t)r.w * 3 * sizeof *dst);
    return true;
}

static zn_face_picture picture(float *pixels)
{
    return (zn_face_picture){ { W, H, 3, read_picture, pixels }, { 0, 0 } };
}

static const char *in_folder(const char *name)
{
    static char path[256];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* A copy of a golden file as the face detector. */
static bool place_detector(const char *golden)
{
    char from[512], bytes[4096];
    FILE *in, *out;
    size_t n;
    bool ok;

    snprintf(from, sizeof from, "%s/tests/data/golden/%s", ZN_SOURCE_ROOT, golden);
    in = fopen(from, "rb");
    out = fopen(in_folder("zenith-find.safetensors"), "wb");
    ok = in && out;
    while (ok && (n = fread(bytes, 1, sizeof bytes, in)) > 0)
        ok = fwrite(bytes, 1, n, out) == n;
    if (in)
        fclose(in);
    return out && !fclose(out) && ok;
}

/* Directions along the first axes of the code, one for each of the names. */
static void write_attributes(const char *file, const char *names, int n)
{
    static const char *const tensor[] = { "directions", "step", "guide", "std" };
    const int len[] = { n * CODE, n, n, CODE };
    char header[1024];
    uint64_t size;
    int at = 0;
    FILE *f = fopen(in_folder(file), "wb");

    snprintf(header, sizeof header, "{\"__metadata__\":{\"names\":\"%s\"}", names);
    for (int k = 0; k < 4; k++) {
        const size_t used = strlen(header);

        snprintf(header + used, sizeof header - used,
                 ",\"%s\":{\"dtype\":\"F32\",\"shape\":[%d%s],\"data_offsets\":[%d,%d]}", tensor[k], k ? len[k] : n,
                 k ? "" : ",24", at * 4, (at + len[k]) * 4);
        at += len[k];
    }
    strcat(header, "}");
    size = strlen(header);
    fwrite(&size, 8, 1, f);
    fputs(header, f);
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < len[k]; i++) {
            const float v = k == 0 ? i % CODE == i / CODE : k == 3 ? 1 : 2;

            fwrite(&v, 4, 1, f);
        }
    fclose(f);
}

static zn_face_how edit_of(double smile, double age)
{
    zn_face_how how = zn_face_defaults();

    how.model = MODEL;
    how.frame = (zn_frame){ 70, 55, 60, 20 };
    how.steps = how.stochastic_steps = 4;
    how.change[0] = (zn_face_change){ "smile", smile };
    if (age != 0)
        how.change[1] = (zn_face_change){ "age", age };
    return how;
}

static zn_status describe(zn_face_plan *plan, const zn_face_how *how, zn_error *err)
{
    return zn_face_describe(plan, session, &choice, how, W, H, err);
}

/* Describe, find and run; out->data is the caller's. */
static zn_status make(zn_array *out, const zn_face_how *how, const zn_watcher *watch, zn_error *err)
{
    const bool two = how->task == ZN_FACE_INTERPOLATE, none = how->task == ZN_FACE_SAMPLE;
    const zn_face_picture a = picture(first), b = picture(second);
    zn_face_result result;
    zn_face_plan plan;
    zn_status s = describe(&plan, how, err);

    if (!s && !none)
        s = zn_face_find(&plan, &a, watch, err);
    *out = plan.out;
    if (s || !(out->data = malloc(zn_array_len(out) * sizeof *out->data)))
        return s ? s : ZN_E_MEMORY;
    s = zn_face_run(&result, &plan, none ? NULL : &a, two ? &b : NULL, out, watch, err);
    return s || strstr(result.computed_by.text, " fp32") ? s : ZN_E_DEVICE;
}

static double largest(const zn_array *a, const zn_array *b)
{
    double worst = 0;

    for (size_t i = 0; i < zn_array_len(a); i++)
        worst = test_larger(worst, fabs((double)a->data[i] - (b ? (double)b->data[i] : 0)));
    return worst;
}

/* ---- settings and refusals ----------------------------------------------------------------------------------------- */

/* A slider is a change like any other, to the bit. */
static void test_sliders(void)
{
    zn_face_how given = edit_of(0.5, -0.25), slid = edit_of(0, 0);
    zn_array one, other;
    zn_error err = { "" };

    slid.change[0].attribute = "beard"; /* unknown, and nothing is wanted of it */
    slid.slider[0] = 0.5;
    slid.slider[3] = -0.25;
    CHECK(!make(&one, &given, NULL, &err) && !make(&other, &slid, NULL, &err) && largest(&one, NULL) > 0.01 &&
              largest(&one, &other) == 0,
          "the sliders make something else: %s", err.text);
    free(one.data);
    free(other.data);
    slid.slider[4] = 1;
    CHECK(make(&other, &slid, NULL, &err) && strstr(err.text, "no attribute 'gender'; there are: mine, smile, age"),
          "'%s'", err.text);
    free(other.data);
    slid.slider[4] = 1.5;
    CHECK(make(&other, &slid, NULL, &err) && strstr(err.text, "gender must be a number"), "'%s'", err.text);
}

static void test_what_is_refused(void)
{
    const struct {
        zn_face_how how;
        const char *why;
    } each[] = {
        { { .model = MODEL, .steps = 1001, .latent_steps = 1 }, "steps must be" },
        { { .model = MODEL, .frame = { 500, 50, 60, 0 }, .latent_steps = 1, .task = ZN_FACE_RECONSTRUCT }, "outside" },
        { { .model = MODEL, .frame = { 50, 50, 9, 0 }, .latent_steps = 1, .task = ZN_FACE_RECONSTRUCT }, "too small" },
        { { .model = MODEL, .frame = { NAN, 50, 90, 0 }, .latent_steps = 1, .task = ZN_FACE_RECONSTRUCT }, "frame-x" },
        { { .model = "none-such", .latent_steps = 1, .task = ZN_FACE_RECONSTRUCT }, "no weights 'none-such'" },
        { { .model = MODEL, .latent_steps = 1, .change = { { "smile", 1 }, { "age", 2 } } }, "amount must be" },
        { { .model = MODEL, .latent_steps = 1, .task = 7 }, "mode must be" },
    };
    zn_face_how how;
    zn_face_plan plan;
    zn_array out = { 0 };
    zn_error err;

    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        CHECK(describe(&plan, &each[i].how, &err) && strstr(err.text, each[i].why), "%zu: '%s'", i, err.text);
    how = edit_of(1, 0);
    CHECK(zn_face_describe(&plan, session, &choice, &how, 0, 0, &err) && strstr(err.text, "no picture"), "'%s'",
          err.text);
    how.change[0].attribute = "beard";
    CHECK(make(&out, &how, NULL, &err) == ZN_E_USAGE && strstr(err.text, "there are: mine, smile, age"), "'%s'",
          err.text);
    free(out.data);
    how = edit_of(1, 0);
    how.model = ZN_SOURCE_ROOT "/tests/data/golden/find.safetensors";
    CHECK(make(&out, &how, NULL, &err) == ZN_E_FILE && *err.text, "weights of something else were taken");
    free(out.data);
}

static void test_what_is_nothing(void)
{
    zn_face_how how = edit_of(0, 0);
    zn_face_plan plan;
    zn_error err;

    CHECK(!describe(&plan, &how, &err) && plan.nothing, "amount 0 is something");
    how.change[1] = (zn_face_change){ "age", -0.5 };
    CHECK(!describe(&plan, &how, &err) && !plan.nothing, "the second amount does not count");
    how.task = ZN_FACE_INTERPOLATE;
    how.position = 0;
    CHECK(!describe(&plan, &how, &err) && plan.nothing, "position 0 is something");
    how.strip = 3;
    CHECK(!describe(&plan, &how, &err) && !plan.nothing && plan.w == 3 * W && plan.h == H, "a strip of %dx%d", plan.w,
          plan.h);
}

/* Each setting and the frame count. */
static void test_what_a_result_depends_on(void)
{
    const zn_face_how base = edit_of(1, 0);
    const zn_face_picture in = picture(first);
    zn_face_how how[8];
    zn_face_plan plan;
    zn_key key[8];
    zn_error err;

    for (int i = 0; i < 8; i++)
        how[i] = base;
    how[1].change[0].amount = 0.5;
    how[2].change[0].attribute = "age";
    how[3].change[1] = (zn_face_change){ "age", 1 };
    how[4].steps++;
    how[5].detail = 0.5;
    how[6].frame.x++;
    how[7].task = ZN_FACE_RECONSTRUCT;
    for (int i = 0; i < 8; i++) {
        CHECK(!describe(&plan, &how[i], &err) && !zn_face_find(&plan, &in, NULL, &err), "%s", err.text);
        key[i] = plan.key;
        for (int j = 0; j < i; j++)
            CHECK(key[i].a != key[j].a || key[i].b != key[j].b, "%d and %d are the same", i, j);
    }
}

/* A blend takes its mask from attribute files. */
static void test_a_blend_depends_on_attribute_files(void)
{
    const zn_face_picture in = picture(first);
    zn_face_how how = edit_of(0, 0);
    zn_face_plan before, after;
    zn_error err;

    how.task = ZN_FACE_INTERPOLATE;
    CHECK(!describe(&before, &how, &err) && !zn_face_find(&before, &in, NULL, &err), "%s", err.text);
    write_attributes("later.attributes.safetensors", "later", 1);
    CHECK(!describe(&after, &how, &err) && !zn_face_find(&after, &in, NULL, &err), "%s", err.text);
    unlink(in_folder("later.attributes.safetensors"));
    CHECK(before.key.a != after.key.a || before.key.b != after.key.b, "a new file does not count");
}

static void test_runs_that_were_not_planned(void)
{
    zn_face_how how = edit_of(1, 0);
    const zn_face_picture in = picture(first);
    zn_face_result result;
    zn_face_plan plan;
    zn_array out;
    float pixel[3];
    zn_error err;

    CHECK(!describe(&plan, &how, &err), "%s", err.text);
    out = (zn_array){ pixel, 1, 1, 3 };
    CHECK(zn_face_run(&result, &plan, &in, NULL, &out, NULL, &err) == ZN_E_USAGE && strstr(err.text, "planned"),
          "ran before it was found: '%s'", err.text);
    CHECK(!zn_face_find(&plan, &in, NULL, &err), "%s", err.text);
    CHECK(zn_face_run(&result, &plan, &in, NULL, &out, NULL, &err) == ZN_E_USAGE, "another size");
    CHECK(zn_face_run(&result, &plan, NULL, NULL, &out, NULL, &err) == ZN_E_USAGE, "no picture");
}

/* ---- runs ------------------------------------------------------------------------------------------------------------ */

enum { KEPT = 32 };

static struct {
    zn_key key;
    void *data;
    size_t size;
} kept[KEPT];
static int n_kept;

static bool get(void *cookie, zn_key key, void *dst, size_t size)
{
    (void)cookie;
    for (int i = 0; i < n_kept; i++)
        if (kept[i].key.a == key.a && kept[i].key.b == key.b && kept[i].size == size) {
            memcpy(dst, kept[i].data, size);
            return true;
        }
    return false;
}

static void put(void *cookie, zn_key key, const void *src, size_t size)
{
    (void)cookie;
    if (n_kept == KEPT || !(kept[n_kept].data = malloc(size)))
        return;
    memcpy(kept[n_kept].data, src, size);
    kept[n_kept].key = key;
    kept[n_kept++].size = size;
}

static const zn_keep keep = { get, put, NULL };

static void forget(void)
{
    while (n_kept)
        free(kept[--n_kept].data);
}

/* Pixels outside of the frame do not change, those inside do. */
static void test_the_frame_alone_changes(void)
{
    static const zn_face_task tasks[] = { ZN_FACE_MANIPULATE, ZN_FACE_RECONSTRUCT, ZN_FACE_INTERPOLATE };
    const double a = 20 * 3.14159265358979 / 180;

    for (size_t i = 0; i < 3; i++) {
        zn_face_how how = edit_of(1, 0);
        zn_array out;
        zn_error err;
        int changed = 0;

        how.task = (int32_t)tasks[i];
        CHECK(!make(&out, &how, NULL, &err), "%s", err.text);
        for (int k = 0; k < out.w * out.h; k++) {
            const double x = 70 - out.w / 2. + k % out.w + 0.5 - 70, y = 55 - out.h / 2. + k / out.w + 0.5 - 55;
            const bool inside = fabs(cos(a) * x + sin(a) * y) < 31 && fabs(cos(a) * y - sin(a) * x) < 31;
            const float *p = out.data + 3 * k;

            CHECK(isfinite(p[0] + p[1] + p[2]), "not finite");
            CHECK(inside || (p[0] == 0 && p[1] == 0 && p[2] == 0), "pixel %d outside changed", k);
            changed += p[0] != 0;
        }
        CHECK(changed > 1500, "only %d pixels changed", changed);
        free(out.data);
    }
}

/* Runs of networks for what was asked; -1: it failed. */
static int runs_of(const zn_face_how *how, const zn_watcher *watch, zn_array *out, zn_error *err)
{
    const uint64_t before = zn_session_runs(session);

    return make(out, how, watch, err) ? -1 : (int)(zn_session_runs(session) - before);
}

/* Several attributes are one encode and one draw, and an attribute alone is what it was. */
static void test_several_attributes(void)
{
    const zn_face_how how[3] = { edit_of(0.6, 0), edit_of(0, -0.8), edit_of(0.6, -0.8) };
    const zn_watcher watch = { .keep = &keep };
    zn_array out[4];
    zn_error err;
    int n[3];

    for (int i = 0; i < 3; i++)
        n[i] = runs_of(&how[i], &watch, &out[i], &err);
    CHECK(n[0] == 3 && n[1] == 1 && n[2] == 1, "%d, %d and %d runs", n[0], n[1], n[2]);
    CHECK(largest(&out[2], &out[0]) > 1e-3 && largest(&out[2], &out[1]) > 1e-3, "one of two attributes is lost");
    forget();
    CHECK(!make(&out[3], &how[2], NULL, &err), "%s", err.text);
    CHECK(!memcmp(out[2].data, out[3].data, zn_array_len(&out[2]) * sizeof(float)), "what was kept changes the result");
    for (int i = 0; i < 4; i++)
        free(out[i].data);
}

/* The pictures of a strip are those of the positions. */
static void test_a_strip(void)
{
    enum { N = 7 };
    zn_face_how how = edit_of(0, 0);
    zn_array strip;
    zn_error err;

    how.task = ZN_FACE_INTERPOLATE;
    how.strip = N;
    CHECK(!make(&strip, &how, NULL, &err), "%s", err.text);
    how.strip = 0;
    for (int i = 0; i < N; i++) {
        const int h = strip.h / N;
        zn_array part = { strip.data + (size_t)i * (size_t)h * (size_t)strip.w * 3, h, strip.w, 3 }, one;

        how.position = (double)i / (N - 1);
        if (!i) {
            CHECK(largest(&part, NULL) == 0, "the first is not the input");
            continue;
        }
        CHECK(!make(&one, &how, NULL, &err), "%s", err.text);
        CHECK(one.h == h && largest(&part, &one) < 1e-4, "%d is off by %g", i, largest(&part, &one));
        free(one.data);
    }
    free(strip.data);
}

/* Faces of one call, more than are drawn at once, are those of calls of their own. */
static void test_many_new_faces(void)
{
    enum { N = 6 };
    zn_face_how how = zn_face_defaults();
    zn_array all, one;
    zn_error err;

    how.model = MODEL;
    how.task = ZN_FACE_SAMPLE;
    how.steps = how.latent_steps = 4;
    how.eta = 1;
    how.seed = 7;
    how.n = N;
    CHECK(!make(&all, &how, NULL, &err), "%s", err.text);
    CHECK(all.w == SIDE && all.h == N * SIDE, "%dx%d", all.w, all.h);
    how.n = 1;
    for (int i = 0; i < N; i++, how.seed++) {
        const zn_array part = { all.data + (size_t)i * SIDE * SIDE * 3, SIDE, SIDE, 3 };

        CHECK(!make(&one, &how, NULL, &err), "%s", err.text);
        CHECK(largest(&part, &one) < 1e-4, "face %d is off by %g", i, largest(&part, &one));
        free(one.data);
    }
    free(all.data);
}

/* There and back: the last ones are those between the ends, backwards. */
static void test_a_loop(void)
{
    zn_face_how how = edit_of(0, 0);
    zn_array strip = { 0 };
    zn_error err;
    bool ok;

    how.task = ZN_FACE_INTERPOLATE;
    how.loop = 1;
    for (how.strip = 2; how.strip < 6; how.strip++) {
        const int n = 2 * how.strip - 2;

        ok = !make(&strip, &how, NULL, &err);
        CHECK(ok && strip.h % n == 0, "%s", err.text);
        for (int i = 1; ok && i < n; i++) {
            const size_t len = zn_array_len(&strip) / (size_t)n;

            CHECK(!memcmp(strip.data + (size_t)i * len, strip.data + (size_t)(n - i) * len, len * sizeof(float)),
                  "%d of %d is not that on the way back", i, n);
        }
        free(strip.data);
    }
}

static void test_new_faces_and_codes(void)
{
    zn_face_how how = zn_face_defaults();
    zn_array face, other, code;
    zn_error err;

    how.model = MODEL;
    how.task = ZN_FACE_SAMPLE;
    how.steps = how.latent_steps = 4;
    CHECK(!make(&face, &how, NULL, &err), "%s", err.text);
    how.seed = 1;
    CHECK(!make(&other, &how, NULL, &err), "%s", err.text);
    CHECK(face.w == SIDE && face.h == SIDE && largest(&face, &other) > 0.01, "%dx%d, off by %g", face.w, face.h,
          largest(&face, &other));
    how.task = ZN_FACE_ENCODE;
    how.search = ZN_SEARCH_NONE;
    CHECK(!make(&code, &how, NULL, &err), "%s", err.text);
    CHECK(code.h == 1 && code.w == 1 && code.c == CODE && largest(&code, NULL) > 0, "a code of %d", code.c);
    free(face.data);
    free(other.data);
    free(code.data);
}

/* ---- where the face is ------------------------------------------------------------------------------------------------ */

static void test_finding(void)
{
    const zn_face_picture in = picture(first);
    zn_face_how how = edit_of(1, 0);
    zn_face_plan plan;
    zn_error err;

    how.frame = (zn_frame){ 0, 0, 0, 0 };
    CHECK(!describe(&plan, &how, &err) && plan.searches && !zn_face_find(&plan, &in, NULL, &err), "%s", err.text);
    CHECK(!plan.searched && strstr(plan.note.text, "zenith-find") && plan.frame.x == W / 2. && plan.frame.size == H,
          "without weights: %g, '%s'", plan.frame.size, plan.note.text);
    CHECK(place_detector("find.safetensors"), "no copy");
    CHECK(!describe(&plan, &how, &err), "%s", err.text);
    CHECK(zn_face_find(&plan, &in, NULL, &err) == ZN_E_USAGE && strstr(err.text, "No face was found"), "'%s'",
          err.text);
    how.search = ZN_SEARCH_OR_MIDDLE;
    CHECK(!describe(&plan, &how, &err) && !zn_face_find(&plan, &in, NULL, &err), "%s", err.text);
    CHECK(plan.searched && !plan.found && plan.frame.size == H, "no face, and not the middle");
    how.search = ZN_SEARCH_NONE;
    CHECK(!describe(&plan, &how, &err) && !plan.searches && !zn_face_find(&plan, &in, NULL, &err), "%s", err.text);
    CHECK(!plan.searched && plan.frame.size == H, "it was looked for");
    unlink(in_folder("zenith-find.safetensors"));
}

/* A change in a picture of W x H, the rest of which is 0. */
static void spread(float *to, const zn_array *change, zn_rect at)
{
    for (int y = 0; y < at.h; y++)
        for (int i = 0; i < at.w * 3; i++)
            to[((at.y + y) * W + at.x) * 3 + i] += change->data[y * at.w * 3 + i];
}

/* Two white spots on black are two faces; both together change by the sum of what each does. */
static void test_all_faces(void)
{
    static float spots[W * H * 3], sum[W * H * 3];
    const zn_face_picture in = picture(spots);
    const zn_watcher watch = { .keep = &keep };
    zn_face_how how = edit_of(1, 0);
    zn_face_result result;
    zn_face_plan plan;
    zn_error err;
    double worst = 0, most = 0;

    for (int i = 0; i < W * H; i++)
        for (int c = 0; c < 3; c++)
            spots[i * 3 + c] = i / W >= 40 && i / W < 55 && (i % W / 15 == 1 || i % W / 15 == 6);
    CHECK(place_detector("find-spot.safetensors"), "no copy");
    how.frame = (zn_frame){ 0, 0, 0, 0 };
    for (int which = 0; which < 4; which++) {
        zn_array out;
        zn_status s;

        how.face = which == 3 ? 0 : which + 1;
        s = describe(&plan, &how, &err);
        if (!s)
            s = zn_face_find(&plan, &in, &watch, &err);
        if (which == 2) {
            CHECK(s == ZN_E_USAGE && strstr(err.text, "no face 3: 2 found"), "'%s'", err.text);
            continue;
        }
        CHECK(!s && plan.n_faces == 2 && plan.n_taken == (which == 3 ? 2 : 1), "%d: %d faces, %d taken: %s", which,
              plan.n_faces, plan.n_taken, s ? err.text : "");
        if (s)
            break;
        out = plan.out;
        out.data = malloc(zn_array_len(&out) * sizeof *out.data);
        CHECK(!zn_face_run(&result, &plan, &in, NULL, &out, &watch, &err), "%d: %s", which, err.text);
        for (size_t i = 0; which == 3 && i < zn_array_len(&out); i++)
            out.data[i] *= -1;
        spread(sum, &out, plan.change);
        for (size_t i = 0; i < zn_array_len(&out); i++)
            most = test_larger(most, fabs((double)out.data[i]));
        free(out.data);
    }
    for (int i = 0; i < W * H * 3; i++)
        worst = test_larger(worst, fabs((double)sum[i]));
    CHECK(worst < 1e-6 && most > 0.01, "the sum is off by %g of %g", worst, most);
    forget();
    unlink(in_folder("zenith-find.safetensors"));
}

/* That a face was looked for is kept by the key of the picture. */
static void test_a_search_is_kept(void)
{
    const zn_watcher watch = { .keep = &keep };
    zn_face_picture in = picture(first);
    zn_face_how how = edit_of(1, 0);
    zn_face_plan plan;
    zn_error err;

    CHECK(place_detector("find.safetensors"), "no copy");
    how.frame = (zn_frame){ 0, 0, 0, 0 };
    how.search = ZN_SEARCH_OR_MIDDLE;
    for (int i = 0; i < 4; i++) {
        const uint64_t before = zn_session_runs(session);

        in.key.a = i > 1; /* unknown, unknown, known, known */
        CHECK(!describe(&plan, &how, &err) && !zn_face_find(&plan, &in, &watch, &err), "%s", err.text);
        CHECK((zn_session_runs(session) > before) == (i < 3), "%d: %d runs", i,
              (int)(zn_session_runs(session) - before));
    }
    forget();
    unlink(in_folder("zenith-find.safetensors"));
}

/* ---- while it runs ------------------------------------------------------------------------------------------------------ */

typedef struct seen {
    int n, n_estimates, n_planned, stop; /* stop: cancels at this call; -1: never */
    double last;
    bool fell;
    zn_error inside; /* of a task that is begun there */
} seen;

static bool on_progress(void *cookie, double done)
{
    seen *s = cookie;

    s->fell = s->fell || done < s->last || done > 1;
    s->last = done;
    return s->n++ != s->stop;
}

static void on_planned(void *cookie, const zn_footprint *need)
{
    ((seen *)cookie)->n_planned += need->weights > 0 && need->beside > 0;
}

static void on_estimate(void *cookie, const zn_array *so_far)
{
    ((seen *)cookie)->n_estimates += so_far->data != NULL && so_far->c == 3;
}

/* At any call: a cancelled run leaves the session free, and the next one makes the same. */
static void test_cancelling(void)
{
    zn_face_how how = edit_of(1, 0);
    seen all = { .stop = -1 };
    zn_array want, out;
    zn_error err;

    CHECK(!make(&want, &how, &(zn_watcher){ .progress = on_progress, .planned = on_planned, .cookie = &all }, &err),
          "%s", err.text);
    CHECK(!all.fell && all.last == 1 && all.n_planned == 1, "the bar fell, or ended at %g; planned %d times", all.last,
          all.n_planned);
    for (int stop = 0; stop < all.n; stop += 1 + all.n / 7) {
        seen part = { .stop = stop };

        CHECK(make(&out, &how, &(zn_watcher){ .progress = on_progress, .cookie = &part }, &err) == ZN_E_CANCELLED,
              "not cancelled at %d of %d: '%s'", stop, all.n, err.text);
        free(out.data);
        CHECK(!zn_session_enter(session, &err), "the turn was not given back");
        zn_session_leave(session);
    }
    CHECK(!make(&out, &how, NULL, &err) && largest(&out, &want) == 0, "after it, off by %g", largest(&out, &want));
    free(out.data);
    free(want.data);
}

/* Whoever watches sees at least the quick one, and the result is the same. */
static void test_estimates(void)
{
    static const zn_face_task tasks[] = { ZN_FACE_MANIPULATE, ZN_FACE_RECONSTRUCT, ZN_FACE_INTERPOLATE,
                                          ZN_FACE_SAMPLE };

    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
        zn_face_how how = edit_of(1, 0);
        seen s = { .stop = -1 };
        zn_array shown, plain;
        zn_error err;

        how.task = (int32_t)tasks[i];
        how.steps = 8;
        how.latent_steps = 4;
        CHECK(!make(&plain, &how, NULL, &err), "%s", err.text);
        CHECK(!make(&shown, &how,
                    &(zn_watcher){ .progress = on_progress, .estimate = on_estimate, .keep = &keep, .cookie = &s },
                    &err),
              "%s", err.text);
        CHECK(s.n_estimates > 0 && !s.fell, "%zu: %d estimates", i, s.n_estimates);
        CHECK(!memcmp(shown.data, plain.data, zn_array_len(&plain) * sizeof(float)),
              "estimates change the result by %g", largest(&shown, &plain));
        forget();
        free(shown.data);
        free(plain.data);
    }
}

static bool try_inside(void *cookie, double done)
{
    const zn_face_how how = edit_of(0.5, 0);
    seen *s = cookie;
    zn_array out = { 0 };

    (void)done;
    if (s->n++)
        return true;
    make(&out, &how, NULL, &s->inside);
    free(out.data);
    return true;
}

/* The order of turns: a task inside of a task of the same thread is refused, not waited for. */
static void test_a_task_inside_of_another(void)
{
    zn_face_how how = edit_of(1, 0);
    seen s = { .stop = -1 };
    zn_array out;
    zn_error err;

    CHECK(!make(&out, &how, &(zn_watcher){ .progress = try_inside, .cookie = &s }, &err), "%s", err.text);
    free(out.data);
    CHECK(s.n > 0 && strstr(s.inside.text, "busy"), "inside: '%s'", s.inside.text);
    CHECK(!zn_session_enter(session, &err), "%s", err.text);
    CHECK(!make(&out, &how, NULL, &err), "between enter and leave: %s", err.text);
    zn_session_leave(session);
    free(out.data);
}

/* ---- attribute files ------------------------------------------------------------------------------------------------------ */

static void test_names_of_attributes(void)
{
    char names[64], few[8];
    zn_face_plan plan;
    const zn_face_how how = edit_of(1, 0);
    zn_error err;

    CHECK(zn_face_attributes(names, sizeof names, MODEL) == 14 && !strcmp(names, "mine,smile,age"), "'%s'", names);
    CHECK(zn_face_attributes(few, sizeof few, MODEL) == 14 && !strcmp(few, "mine,sm"), "'%s'", few);
    CHECK(!describe(&plan, &how, &err), "%s", err.text);
    CHECK(!strcmp(plan.model, "diffae") && !zn_face_has_attribute(&plan, "smile"), "the model is %s", plan.model);
    write_attributes("diffae.attributes.safetensors", "x,smile", 2);
    CHECK(zn_face_has_attribute(&plan, "smile") && !zn_face_has_attribute(&plan, "smil"), "names");
    unlink(in_folder("diffae.attributes.safetensors"));
}

int main(void)
{
    if (!mkdtemp(folder) || setenv("ZENITH_MODELS", folder, 1) || setenv("XDG_DATA_HOME", folder, 1) ||
        zn_session_open(&session, NULL))
        return 1;
    write_attributes("own.attributes.safetensors", "mine", 1);
    write_attributes("tiny.attributes.safetensors", "smile,age", 2);
    for (int i = 0; i < W * H * 3; i++) {
        first[i] = (float)(0.5 + 0.3 * sin(i % (W * 3) * 0.02) + 0.1 * cos(i / (W * 3) * 0.3 + i % 3));
        second[i] = (float)(0.4 + 0.3 * cos(i % (W * 3) * 0.03) * sin(i / (W * 3) * 0.1 + i % 3));
    }
    RUN(test_sliders);
    RUN(test_what_is_refused);
    RUN(test_what_is_nothing);
    RUN(test_what_a_result_depends_on);
    RUN(test_a_blend_depends_on_attribute_files);
    RUN(test_runs_that_were_not_planned);
    RUN(test_the_frame_alone_changes);
    RUN(test_several_attributes);
    RUN(test_a_strip);
    RUN(test_a_loop);
    RUN(test_new_faces_and_codes);
    RUN(test_many_new_faces);
    RUN(test_finding);
    RUN(test_all_faces);
    RUN(test_a_search_is_kept);
    RUN(test_cancelling);
    RUN(test_estimates);
    RUN(test_a_task_inside_of_another);
    RUN(test_names_of_attributes);
    zn_session_close(&session);
    unlink(in_folder("own.attributes.safetensors"));
    unlink(in_folder("tiny.attributes.safetensors"));
    rmdir(folder);
    return test_end();
}
