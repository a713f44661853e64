/* SPDX-License-Identifier: MIT */
/* test_face_move.c - moves and masks of attribute files: their formulas, their files, and that an edit and a blend stay inside of the
 * mask.  The tiny network of tests/data/golden has codes of 24 numbers. */
#include "test.h"

#include "pipeline/face.h"

#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define MODEL ZN_SOURCE_ROOT "/tests/data/golden/diffae.ckpt"

enum { CODE = 24, HIDDEN = 3, CELLS = 4, NAMES = 2, W = 80, H = 80, TENSORS = 12 };

static char folder[] = "/tmp/zenith-test-face-move-XXXXXX";

typedef struct tensor {
    const char *name;
    int dims[4], n_dims;
    float (*value)(int i);
} tensor;

/* A number in -1..1 that i and a salt make. */
static float mix(int i, int salt)
{
    return sinf((float)(i * 7 + salt) * 0.37f);
}

static float some(int i)
{
    return mix(i, 1);
}

static float others(int i)
{
    return mix(i, 5);
}

static float weak(int i)
{
    return 0.2f * mix(i, 9);
}

static float two(int i)
{
    (void)i;
    return 2;
}

static float deviations(int i)
{
    return 0.5f + 0.01f * (float)i;
}

/* The region of the first attribute is empty, that of the second its left half. */
static float regions(int i)
{
    return i >= CELLS * CELLS && i % CELLS < CELLS / 2;
}

static const tensor usual[TENSORS] = {
    { "directions", { NAMES, CODE }, 2, some },
    { "step", { NAMES }, 1, two },
    { "guide", { NAMES }, 1, two },
    { "std", { CODE }, 1, deviations },
    { "mean", { CODE }, 1, weak },
    { "move.shift", { NAMES, 2, CODE }, 3, some },
    { "move.inner", { NAMES, 2, HIDDEN, CODE }, 4, weak },
    { "move.bias", { NAMES, 2, HIDDEN }, 3, others },
    { "move.outer", { NAMES, 2, CODE, HIDDEN }, 4, others },
    { "mask.weight", { CELLS * CELLS, CODE }, 2, weak },
    { "mask.bias", { CELLS * CELLS }, 1, two },
    { "mask.region", { NAMES, CELLS, CELLS }, 3, regions },
};

static const char *path(void)
{
    static char text[256];

    snprintf(text, sizeof text, "%s/diffae.attributes.safetensors", folder);
    return text;
}

static int len_of(const tensor *t)
{
    int len = 1;

    for (int d = 0; d < t->n_dims; d++)
        len *= t->dims[d];
    return len;
}

/* The first n of these tensors, for "mine" and "yours". */
static void write_file(const tensor *t, int n)
{
    char header[2048] = "{\"__metadata__\":{\"names\":\"mine,yours\"}";
    FILE *f = fopen(path(), "wb");
    uint64_t size;

    for (int k = 0, at = 0; k < n; at += 4 * len_of(&t[k++])) {
        char shape[64] = "";

        for (int d = 0; d < t[k].n_dims; d++)
            snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%d", d ? "," : "", t[k].dims[d]);
        snprintf(header + strlen(header), sizeof header - strlen(header),
                 ",\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%d,%d]}", t[k].name, shape, at,
                 at + 4 * len_of(&t[k]));
    }
    strcat(header, "}");
    size = strlen(header);
    fwrite(&size, 8, 1, f);
    fputs(header, f);
    for (int k = 0; k < n; k++)
        for (int i = 0; i < len_of(&t[k]); i++) {
            const float v = t[k].value(i);

            fwrite(&v, 4, 1, f);
        }
    fclose(f);
}

static void make_code(float *code)
{
    for (int i = 0; i < CODE; i++)
        code[i] = mix(i, 3);
}

/* ---- moves ------------------------------------------------------------------------------------------------------- */

/* cond = code + |amount| std (shift + outer tanh(inner z + bias)) with the tensors of row `at` of all moves. */
static void expect_move(double *cond, const float *code, double amount, int at)
{
    double t[HIDDEN];

    for (int h = 0; h < HIDDEN; h++) {
        double sum = (double)others(at * HIDDEN + h);

        for (int i = 0; i < CODE; i++)
            sum += (double)weak((at * HIDDEN + h) * CODE + i) * ((double)code[i] - (double)weak(i)) /
                (double)deviations(i);
        t[h] = tanh(sum);
    }
    for (int i = 0; i < CODE; i++) {
        double sum = (double)some(at * CODE + i);

        for (int h = 0; h < HIDDEN; h++)
            sum += (double)others((at * CODE + i) * HIDDEN + h) * t[h];
        cond[i] = (double)code[i] + fabs(amount) * (double)deviations(i) * sum;
    }
}

static void test_moves_of_both_signs(void)
{
    static const struct {
        zn_face_change change;
        int at;
    } each[] = { { { "mine", 1 }, 0 }, { { "mine", -0.5 }, 1 }, { { "yours", 0.25 }, 2 }, { { "yours", -1 }, 3 } };
    float code[CODE], cond[CODE];
    double want[CODE];
    zn_error err;

    make_code(code);
    write_file(usual, TENSORS);
    for (int k = 0; k < 4; k++) {
        zn_attribute a;

        CHECK(!zn_attribute_find(&a, &each[k].change, "diffae", CODE, &err), "%s", err.text);
        CHECK(a.hidden == HIDDEN && a.cells == CELLS && a.guide == 2, "%d, %d, %g", a.hidden, a.cells, a.guide);
        memcpy(cond, code, sizeof cond);
        CHECK(zn_attribute_move(cond, code, &a, CODE), "out of memory");
        expect_move(want, code, each[k].change.amount, each[k].at);
        for (int i = 0; i < CODE; i++)
            CHECK(fabs((double)cond[i] - want[i]) < 1e-5, "%d: %g, not %g", i, (double)cond[i], want[i]);
        zn_attribute_clear(&a);
        CHECK(!a.shift && !a.region, "it is not cleared");
    }
}

/* A file of directions alone is what it was: the same for both signs. */
static void test_directions(void)
{
    float code[CODE], cond[CODE];
    zn_attribute a;
    zn_error err;

    make_code(code);
    write_file(usual, 4);
    CHECK(!zn_attribute_find(&a, &(zn_face_change){ "yours", -0.5 }, "diffae", CODE, &err), "%s", err.text);
    CHECK(!a.hidden && !a.cells && a.gain == -0.5, "%d, %d, %g", a.hidden, a.cells, a.gain);
    memcpy(cond, code, sizeof cond);
    CHECK(zn_attribute_move(cond, code, &a, CODE), "out of memory");
    for (int i = 0; i < CODE; i++) {
        const float want = code[i] - 0.5f * (deviations(i) * (2 * some(CODE + i)));

        CHECK(fabsf(cond[i] - want) < 1e-6f, "%d: %g, not %g", i, (double)cond[i], (double)want);
    }
    zn_attribute_clear(&a);
}

static float not_finite(int i)
{
    return i == 10 ? NAN : 0; /* in the last move */
}

static void test_files_that_do_not_fit(void)
{
    static const struct {
        int k;
        tensor instead;
        const char *why;
    } each[] = {
        { 6, { "move.inner", { NAMES, 2, HIDDEN, CODE - 1 }, 4, weak }, "do not fit its codes" },
        { 6, { "move.inner", { NAMES, 1, 2 * HIDDEN, CODE }, 4, weak }, "do not fit its codes" },
        { 5, { "move.shift", { NAMES, CODE }, 2, some }, "move.shift" },
        { 8, { "move.outer", { NAMES, 2, CODE }, 3, some }, "move.outer" },
        { 4, { "mean", { CODE - 1 }, 1, weak }, "mean" },
        { 3, { "std", { CODE }, 1, weak }, "do not fit its codes" },
        { 7, { "move.bias", { NAMES, 2, HIDDEN }, 3, not_finite }, "not finite" },
        { 9, { "mask.weight", { 3, CODE }, 2, weak }, "mask.weight" },
        { 11, { "mask.region", { NAMES, CELLS, 2 }, 3, regions }, "do not fit its codes" },
    };

    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        tensor t[TENSORS];
        zn_attribute a;
        zn_error err;
        zn_status s;

        memcpy(t, usual, sizeof t);
        t[each[i].k] = each[i].instead;
        write_file(t, TENSORS);
        s = zn_attribute_find(&a, &(zn_face_change){ "yours", -1 }, "diffae", CODE, &err);
        zn_attribute_clear(&a);
        CHECK(s && strstr(err.text, each[i].why), "%s: %d, %s", each[i].instead.name, s, s ? err.text : "");
    }
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */

/* A mask of 2 x 2 cells of a code of one number; side 4, so pixels are at -0.25, 0.25, 0.75 and 1.25 cells. */
static void test_masks(void)
{
    float one = 1, zero = 0, weight[4] = { 0, 4, 0, 0 }, bias[4] = { 4, 0, 8, -8 }, region[4] = { 1, 1, 0, 1 };
    float code[1] = { 1 }, cond[1] = { 2 };
    const zn_attribute a = {
        .cells = 2, .mean = &zero, .deviation = &one, .mask_weight = weight, .mask_bias = bias, .region = region
    };
    const zn_attribute both[2] = { a, { .cells = 0 } };
    const float row[4] = { 4, 5, 7, 8 }; /* between 4 and the larger of 4 and 8: the logits of the first row */
    zn_face_mask m = { 0 };

    CHECK(zn_face_mask_make(&m, 4, &a, 1, code, cond, 1) && m.face && m.change, "out of memory");
    for (int i = 0; i < 4; i++) {
        const float face = 1 / (1 + expf(-row[i]));

        CHECK(fabsf(m.face[i] - face) < 1e-6f, "%d: %g, not %g", i, (double)m.face[i], (double)face);
        CHECK(fabsf(m.change[i] - face) < 1e-6f, "%d: %g, not %g", i, (double)m.change[i], (double)face);
    }
    CHECK(fabsf(m.face[12] - 1 / (1 + expf(-8.0f))) < 1e-6f && m.change[12] == 0, "%g, %g", (double)m.face[12],
          (double)m.change[12]);
    CHECK(zn_face_mask_make(&m, 4, &a, 1, cond, code, 1) && fabsf(m.face[3] - 1 / (1 + expf(-8.0f))) < 1e-6f,
          "the other way: %g", (double)m.face[3]);
    bias[0] = bias[1] = -20; /* eyes are face nevertheless */
    CHECK(zn_face_mask_make(&m, 4, &a, 1, code, code, 1) && fabsf(m.face[0] - 1 / (1 + expf(-3.0f))) < 1e-6f &&
              fabsf(m.face[3] - m.face[0]) < 1e-6f,
          "eyes: %g, %g", (double)m.face[0], (double)m.face[3]);
    CHECK(zn_face_mask_make(&m, 4, both, 2, code, cond, 1) && !m.face && !m.change, "one of two has no mask");
    zn_face_mask_clear(&m);
}

/* A hole in the face is filled, a bay is not: side 5, so pixels are cells. */
static void test_holes(void)
{
    enum { N = 5 };
    float one = 1, zero = 0, weight[N * N] = { 0 }, region[N * N], code[1] = { 1 };
    float bias[N * N] = { -6, -6, -6, -6, -6, -6, 4, 3, 4, -6, -6, 4, -4, 4, -6, -6, 4, 4, 4, -6, -6, -6, -6, -6, -6 };
    const zn_attribute a = {
        .cells = N, .mean = &zero, .deviation = &one, .mask_weight = weight, .mask_bias = bias, .region = region
    };
    zn_face_mask m = { 0 };

    for (int i = 0; i < N * N; i++)
        region[i] = 1;
    for (int open = 0; open < 2; open++) {
        bias[7] = open ? -5 : 3;
        CHECK(zn_face_mask_make(&m, N, &a, 1, code, code, 1), "out of memory");
        for (int i = 0; i < N * N; i++) {
            const float want = 1 / (1 + expf(-(i == 12 && !open ? 3 : bias[i])));

            CHECK(fabsf(m.face[i] - want) < 1e-6f, "%d, %d: %g, not %g", open, i, (double)m.face[i], (double)want);
        }
    }
    zn_face_mask_clear(&m);
}

/* The median of each channel in the face is taken away; the rest is multiplied.  Of grey pictures it is grey, of those with half the
 * usual colours its colours are half as strong. */
static void test_casts(void)
{
    enum { N = 9 };
    float face[N] = { 1, 1, 1, 1, 1, 0.2f, 0.5f, 0, 0 }, change[N] = { 1, 0.5f, 1, 1, 0, 1, 1, 1, 0 };
    const float red[N] = { 3, 1, 7, 2, 9, 50, 50, 50, 50 }, ranges[] = { 0.3f, 0.03f, 0 }, colours[] = { 1, 0.5f, 0 };
    const zn_face_mask mask = { 3, face, change }, none = { 0 };

    for (int k = 0; k < 3; k++) {
        zn_face_field field[N];

        for (int i = 0; i < N; i++) {
            const float all[ZN_FACE_FIELDS] = { red[i], (float)i, 1, 0.5f, 0.5f + (face[i] > 0.5f ? ranges[k] : 1),
                                                0.5f,   -2 };

            memcpy(field[i], all, sizeof all);
        }
        CHECK(zn_field_mask(field, 3, &none) && field[4][0] == 9 && field[4][1] == 4, "without a mask");
        CHECK(zn_field_mask(field, 3, &mask), "out of memory");
        for (int i = 0; i < N; i++) {
            const float d[3] = { red[i] - 3, (float)i - 2, 0 }, grey = 0.299f * d[0] + 0.587f * d[1];

            for (int c = 0; c < 3; c++) {
                const float want = change[i] * (grey + colours[k] * (d[c] - grey));

                CHECK(fabsf(field[i][c] - want) < 1e-4f, "%d, %d, %d: %g, not %g", k, i, c, (double)field[i][c],
                      (double)want);
            }
            CHECK(field[i][3] == 0.5f, "what the model saw is changed");
            CHECK(fabsf(field[i][6] + 2 * change[i]) < 1e-6f, "the gain is %g", (double)field[i][6]);
        }
    }
}

/* A frame in which no face is seen has no cast. */
static void test_no_face(void)
{
    float face[1] = { 0.4f }, change[1] = { 0.5f };
    zn_face_field field[1] = { { 1, 2, 3, 0, 0, 0, 0, 0 } };

    CHECK(zn_field_mask(field, 1, &(zn_face_mask){ 1, face, change }), "out of memory");
    for (int c = 0; c < 3; c++)
        CHECK(fabsf(field[0][c] - 0.5f * (float)(1 + c)) < 1e-6f, "%g", (double)field[0][c]);
}

/* A field of twice the mask's size.  The face is drawn at 0.8 on 0.4: it comes to 0.4, black and white stay, grey stays grey. */
static void test_tone(void)
{
    enum { SIDE = 4, CELLS_OF = 2 };
    float face[CELLS_OF * CELLS_OF] = { 1, 1, 1, 0 };
    const zn_face_mask mask = { CELLS_OF, face, face };
    zn_face_field field[SIDE * SIDE];

    for (int i = 0; i < SIDE * SIDE; i++)
        for (int c = 0; c < 3; c++) {
            field[i][3 + c] = 0.4f;
            field[i][c] = (i == 0 ? 0 : i == 1 ? 1 : i == 2 ? 0.6f : 0.8f) - 0.4f;
        }
    CHECK(zn_field_tone(field, SIDE, &mask), "out of memory");
    for (int i = 0; i < SIDE * SIDE; i++) {
        const double v = (double)field[i][0] + 0.4;
        /* g = 0.4^2 (1 - 0.8^2) / (0.8^2 (1 - 0.4^2)); sqrt(0.36 g / (1 + 0.36 (g - 1))) */
        const double want = i == 0 ? 0 : i == 1 ? 1 : i == 2 ? 0.238416 : 0.4;

        CHECK(fabs(v - want) < 1e-4 && field[i][0] == field[i][2], "%d: %g, not %g", i, v, want);
    }
    CHECK(zn_field_tone(field, SIDE, &(zn_face_mask){ 0 }), "without a mask");
}

/* ---- an edit and a blend ------------------------------------------------------------------------------------------------------ */

static float pixels[W * H * 3], others_pixels[W * H * 3];

static bool read_pixels(void *cookie, zn_rect r, float *dst)
{
    for (int y = 0; y < r.h; y++)
        memcpy(dst + (size_t)y * (size_t)r.w * 3, (const float *)cookie + ((size_t)(r.y + y) * W + (size_t)r.x) * 3,
               (size_t)r.w * 3 * sizeof *dst);
    return true;
}

/* out->data is the caller's; how gets the model, the frame and the steps. */
static zn_status make(zn_array *out, zn_session *session, zn_face_how *how, zn_error *err)
{
    const zn_face_picture in = { { W, H, 3, read_pixels, pixels }, { 0, 0 } };
    const zn_face_picture other = { { W, H, 3, read_pixels, others_pixels }, { 0, 0 } };
    const zn_choice choice = { .n_threads = 2, .precision = "fp32" };
    zn_face_result result;
    zn_face_plan plan;
    zn_status s;

    how->model = MODEL;
    how->frame = (zn_frame){ W / 2, H / 2, W, 0 };
    how->steps = how->stochastic_steps = 4;
    s = zn_face_describe(&plan, session, &choice, how, W, H, err);
    if (!s)
        s = zn_face_find(&plan, &in, NULL, err);
    *out = plan.out;
    out->data = calloc(W * H * 3, sizeof *out->data);
    return s ? s : zn_face_run(&result, &plan, &in, how->task == ZN_FACE_INTERPOLATE ? &other : NULL, out, NULL, err);
}

/* Linear between the cells' centres, then bicubic: a mask is felt so far beyond the middle between them. */
enum { BEYOND = W / CELLS / 2 + W / 16 };

/* The largest change in the left and in the right half of the picture. */
static zn_status edit(double half[2], zn_session *session, const char *first, const char *next, zn_error *err)
{
    zn_face_how how = zn_face_defaults();
    zn_array out;
    zn_status s;

    how.detail = 1; /* less would soften what is next to a change */
    how.change[0] = (zn_face_change){ first, -1 };
    how.change[1] = (zn_face_change){ next, 1 };
    s = make(&out, session, &how, err);
    half[0] = half[1] = 0;
    for (int i = 0; i < out.h * out.w * 3; i++) {
        const int right = i / 3 % out.w >= W / 2 + BEYOND;

        half[right] = test_larger(half[right], fabs((double)out.data[i]));
    }
    free(out.data);
    return s;
}

static void test_an_edit_stays_in_the_mask(void)
{
    zn_session *session = NULL;
    double none[2], left[2], both[2], all[2];
    zn_error err;

    CHECK(!zn_session_open(&session, &err), "%s", err.text);
    write_file(usual, TENSORS);
    CHECK(!edit(none, session, "mine", NULL, &err), "%s", err.text);
    CHECK(!edit(left, session, "yours", NULL, &err), "%s", err.text);
    CHECK(!edit(both, session, "yours", "mine", &err), "%s", err.text);
    write_file(usual, TENSORS - 1);
    CHECK(!edit(all, session, "mine", NULL, &err), "%s", err.text);
    zn_session_close(&session);
    CHECK(none[0] == 0 && none[1] == 0, "an empty region: %g, %g", none[0], none[1]);
    CHECK(left[0] > 1e-3 && left[1] == 0, "the left half: %g, %g", left[0], left[1]);
    CHECK(both[0] > 1e-3 && both[1] == 0, "two attributes: %g, %g", both[0], both[1]);
    CHECK(all[0] > 1e-3 && all[1] > 1e-3, "without a mask: %g, %g", all[0], all[1]);
}

static float nothing(int i)
{
    (void)i;
    return 0;
}

/* The upper half of the frame is face. */
static float upper(int i)
{
    return i < CELLS * CELLS / 2 ? 4 : -40;
}

/* The largest change in the upper and in the lower half of the picture. */
static void measure(double half[2], const float *change)
{
    half[0] = half[1] = 0;
    for (int i = 0; i < W * H * 3; i++) {
        const int lower = i / 3 / W >= H / 2 + BEYOND;

        half[lower] = test_larger(half[lower], fabs((double)change[i]));
    }
}

/* Without a mask all of the frame changes; a mask that is wrong is refused. */
static void test_a_blend_stays_in_the_mask(void)
{
    static const double positions[] = { 0.5, 1 };
    zn_face_how how = zn_face_defaults();
    tensor t[TENSORS];
    zn_session *session = NULL;
    double half[2];
    zn_array out;
    zn_error err;

    memcpy(t, usual, sizeof t);
    t[9].value = nothing;
    t[10].value = upper;
    CHECK(!zn_session_open(&session, &err), "%s", err.text);
    how.task = ZN_FACE_INTERPOLATE;
    for (int masked = 1; masked >= 0; masked--) {
        write_file(t, masked ? TENSORS : TENSORS - 1);
        for (int i = 0; i < 2; i++) {
            how.position = positions[i];
            CHECK(!make(&out, session, &how, &err), "%s", err.text);
            measure(half, out.data);
            CHECK(half[0] > 0.01 && (masked ? half[1] < 1e-6 : half[1] > 0.01), "mask %d, position %g: %g, %g", masked,
                  how.position, half[0], half[1]);
            free(out.data);
        }
    }
    zn_session_close(&session);
    t[3].value = nothing; /* a deviation of 0 */
    write_file(t, TENSORS);
    CHECK(!zn_session_open(&session, &err), "%s", err.text);
    CHECK(make(&out, session, &how, &err) == ZN_E_FILE && strstr(err.text, "do not fit its codes"), "'%s'", err.text);
    free(out.data);
    zn_session_close(&session);
}

int main(void)
{
    if (!mkdtemp(folder) || setenv("ZENITH_MODELS", folder, 1) || setenv("XDG_DATA_HOME", folder, 1))
        return 1;
    for (int i = 0; i < W * H * 3; i++)
        pixels[i] = (float)(0.5 + 0.3 * sin(i % (W * 3) * 0.02) + 0.1 * cos(i / (W * 3) * 0.3 + i % 3));
    for (int i = 0; i < W * H * 3; i++)
        others_pixels[i] = (float)(0.6 + 0.2 * cos(i % (W * 3) * 0.05) - 0.1 * sin(i / (W * 3) * 0.2 + i % 3));
    RUN(test_moves_of_both_signs);
    RUN(test_directions);
    RUN(test_files_that_do_not_fit);
    RUN(test_masks);
    RUN(test_holes);
    RUN(test_casts);
    RUN(test_no_face);
    RUN(test_tone);
    RUN(test_an_edit_stays_in_the_mask);
    RUN(test_a_blend_stays_in_the_mask);
    unlink(path());
    rmdir(folder);
    return test_end();
}
