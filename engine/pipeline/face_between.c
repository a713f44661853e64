/* SPDX-License-Identifier: MIT */
/* face_between.c - a face between two, and strips of them.
 *
 *   cond, noise of both ── at a position ── drawn ── contrast and tone ── in the mask of its face: the change of the first
 */
#include "face.h"

#include "../core/ints.h"
#include "../core/status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct pair {
    zn_face_data face[2];
    float *large[2];   /* what the model saw, enlarged, if they are large */
    zn_attribute all;  /* of the mask */
    zn_face_mask mask; /* where the face between them is */
    double position;
} pair;

/* a becomes (sin((1 - t) theta) a + sin(t theta) b) / sin(theta), theta being the angle between them: noise between two noises is
 * as strong as they are. */
static void slerp(float *a, const float *b, size_t n, double t)
{
    double ab = 0, aa = 0, bb = 0, theta, p = 1 - t, q = t;

    for (size_t i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    theta = aa > 0 && bb > 0 ? acos(fmin(fmax(ab / sqrt(aa * bb), -1), 1)) : 0;
    if (sin(theta) > 1e-6) {
        p = sin((1 - t) * theta) / sin(theta);
        q = sin(t * theta) / sin(theta);
    }
    for (size_t i = 0; i < n; i++)
        a[i] = (float)(p * (double)a[i] + q * (double)b[i]);
}

static void code_between(float *cond, const zn_face_data *face, double position, int n)
{
    const float *a = face[0].codes, *b = face[1].codes;

    for (int i = 0; i < n; i++)
        cond[i] = (float)((1 - position) * (double)a[i] + position * (double)b[i]);
}

/* The position and its mask: where the face is that is drawn there.  Tint is what differs where the first one's is, too. */
static zn_status place(pair *p, double position, const zn_face_work *k)
{
    const float *first = p->face[0].codes;
    float *cond = zn_face_floats((size_t)k->code);
    zn_face_mask own = { 0 };
    bool ok = cond;

    p->position = position;
    if (ok) {
        code_between(cond, p->face, position, k->code);
        ok = zn_face_mask_make(&own, k->side, &p->all, 1, first, first, k->code) &&
            zn_face_mask_make(&p->mask, k->side, &p->all, 1, cond, cond, k->code);
    }
    for (int i = 0; ok && own.face && i < k->side * k->side; i++)
        p->mask.face[i] = fminf(p->mask.face[i], own.face[i]);
    zn_face_mask_clear(&own);
    free(cond);
    return ok ? ZN_OK : zn_face_no_memory(k);
}

/* dst [n][side][side][3]: the faces at these positions between two. */
static zn_status draw_between(float *dst, int n, zn_face_work *k, const zn_face_data *face, const double *position)
{
    const float *a = face[0].codes, *b = face[1].codes;
    const size_t code = (size_t)k->code;
    float *cond = zn_face_floats((size_t)n * code), *noise = zn_face_floats((size_t)n * k->len);
    zn_status s = cond && noise ? ZN_OK : zn_face_no_memory(k);

    for (size_t j = 0; !s && j < (size_t)n; j++) {
        code_between(cond + j * code, face, position[j], k->code);
        memcpy(noise + j * k->len, a + code, k->len * sizeof *noise);
        slerp(noise + j * k->len, b + code, k->len, position[j]);
    }
    if (!s)
        s = zn_face_draw(dst, k, &(zn_face_drawing){ .n = n, .noise = noise, .cond = cond, .shows = true });
    free(noise);
    free(cond);
    return s;
}

/* zn_field_paste() inside of the pair's mask. */
static bool paste_masked(zn_array *out, zn_face_field *field, int side, const zn_face_work *k, const zn_patch *patch)
{
    const pair *p = k->pasted;

    if (field && zn_field_tone(field, side, &p->mask) && zn_field_mask(field, side, &p->mask))
        return zn_field_paste(out, field, side, k, patch);
    free(field);
    return false;
}

/* out, which is 0, gets a face between two; of this side are the face and what was seen of both. */
static bool paste_pair(zn_array *out, const zn_face_work *k, int side, const float *face, const float *first,
                       const float *second)
{
    const pair *p = k->pasted;
    const float t = (float)p->position;

    return paste_masked(out, zn_field_new(side, face, first, first, -t), side, k, &p->face[0].patch) &&
        paste_masked(out, zn_field_new(side, second, second, second, t), side, k, &p->face[1].patch);
}

static bool level(float *dst, const zn_face_work *k, const float *drawn)
{
    const pair *p = k->pasted;

    return zn_face_level_contrast(dst, drawn, p->face[0].low, p->face[1].low, k->side, p->position);
}

static bool paste_between(zn_array *out, const zn_face_work *k, const float *drawn)
{
    const pair *p = k->pasted;
    float *face = zn_face_floats(k->len);
    const bool ok = face && level(face, k, drawn) && paste_pair(out, k, k->side, face, p->face[0].low, p->face[1].low);

    free(face);
    return ok;
}

/* The result: large faces are enlarged. */
static zn_status put_between(zn_array *out, zn_face_work *k, pair *p, const float *drawn)
{
    float *face = zn_face_floats(k->len), *to = NULL;
    zn_status s = face && level(face, k, drawn) ? ZN_OK : zn_face_no_memory(k);

    memset(out->data, 0, zn_array_len(out) * sizeof *out->data);
    if (!s && !k->quick)
        s = zn_face_enlarge(&to, face, zn_face_whole(k), false, k);
    for (int i = 0; !s && to && i < 2; i++)
        if (!p->large[i])
            s = zn_face_enlarge(&p->large[i], p->face[i].low, zn_face_whole(k), true, k);
    if (!s &&
        !(to ? paste_pair(out, k, k->side * k->scale, to, p->large[0], p->large[1])
             : paste_pair(out, k, k->side, face, p->face[0].low, p->face[1].low)))
        s = zn_face_no_memory(k);
    free(to);
    free(face);
    return s;
}

/* The changes of all pictures of a strip, ZN_FACE_BATCH at a time; the first is the input. */
static zn_status draw_strip(zn_face_work *k, pair *p, int n)
{
    const int h = k->plan->change.h;
    const size_t len = (size_t)h * (size_t)k->out->w * 3;
    float *drawn = zn_face_floats(ZN_FACE_BATCH * k->len);
    zn_status s = drawn ? ZN_OK : zn_face_no_memory(k);

    memset(k->out->data, 0, zn_array_len(k->out) * sizeof *k->out->data);
    for (int from = 1, count; !s && from < n; from += count) {
        double position[ZN_FACE_BATCH];

        count = zn_imin(ZN_FACE_BATCH, n - from);
        for (int j = 0; j < count; j++)
            position[j] = (double)(from + j) / (n - 1);
        s = draw_between(drawn, count, k, p->face, position);
        for (int j = 0; !s && j < count; j++) {
            zn_array one = { k->out->data + (size_t)(from + j) * len, h, k->out->w, 3 };

            s = place(p, position[j], k);
            if (!s)
                s = put_between(&one, k, p, drawn + (size_t)j * k->len);
        }
    }
    for (int i = n; !s && (size_t)i * len < zn_array_len(k->out); i++) /* back to the first */
        memcpy(k->out->data + (size_t)i * len, k->out->data + (size_t)(2 * n - 2 - i) * len, len * sizeof(float));
    free(drawn);
    return s;
}

/* *second: NULL, the frame of the first picture is that of the second, too; or its own. */
static zn_status second_frame(zn_square *own, const zn_square **second, const zn_face_work *k)
{
    const zn_face_picture *in = k->second;
    zn_face_list list;
    zn_frame frame;
    zn_status s;

    *second = NULL;
    if (!k->plan->found)
        return ZN_OK;
    s = zn_face_search_in(&list, k->plan, in, k->watch, k->err);
    if (!s && !list.n)
        s = zn_fail(k->err, ZN_E_USAGE, "No face was found in the second picture.");
    frame = zn_face_frame(&list.face[0]);
    if (!s)
        s = zn_square_get(own, &frame, in->source.w, in->source.h, k->err);
    *second = own;
    return s;
}

zn_status zn_face_interpolate(zn_face_work *k)
{
    const int strip = k->plan->how.strip > 1 ? k->plan->how.strip : 0;
    const double position = k->plan->how.position;
    pair p = { .position = position };
    float *drawn = zn_face_floats(k->len);
    const zn_square *second = NULL;
    zn_square own;
    zn_status s = drawn ? second_frame(&own, &second, k) : zn_face_no_memory(k);

    if (!s)
        s = zn_face_read(&p.face[0], k, &k->in->source, NULL);
    if (!s)
        s = zn_face_read(&p.face[1], k, &k->second->source, second);
    if (!s)
        s = zn_attribute_find_mask(&p.all, k->plan->model, k->code, k->err);
    k->paste = strip ? NULL : paste_between;
    k->pasted = &p;
    k->total = zn_face_encode_cost(&p.face[0]) + zn_face_encode_cost(&p.face[1]) +
        (strip ? strip - 1 : 1) * (k->steps + zn_face_enlarge_cost(k, 1)) + zn_face_enlarge_cost(k, 2);
    for (int i = 0; !s && i < 2; i++)
        s = zn_face_encode(&p.face[i], k);
    if (!s && strip)
        s = draw_strip(k, &p, strip);
    else if (!s && !(s = place(&p, position, k)) && !(s = draw_between(drawn, 1, k, p.face, &position)))
        s = put_between(k->out, k, &p, drawn);
    free(drawn);
    zn_face_mask_clear(&p.mask);
    zn_attribute_clear(&p.all);
    free(p.large[0]);
    free(p.large[1]);
    zn_face_clear(&p.face[0]);
    zn_face_clear(&p.face[1]);
    return s;
}
