/* SPDX-License-Identifier: MIT */
/* face_all.c - zn_face_run(), also where all faces of a picture are changed: one after the other, each as if it were alone, and the
 * sum of their changes. */
#include "face.h"

#include "../core/status.h"

#include <stdlib.h>
#include <string.h>

typedef struct several { /* the watcher of one of them */
    const zn_watcher *outer;
    const zn_face_plan *plan; /* of all */
    zn_rect at;               /* of the one */
    const zn_array *out;      /* what those before it changed */
    int done;
} several;

/* Adds a change that lies at `at` to that of the plan. */
static void add(zn_array *out, const zn_face_plan *plan, const zn_array *change, zn_rect at)
{
    for (int y = 0; y < at.h; y++) {
        float *to =
            out->data + ((size_t)(at.y - plan->change.y + y) * (size_t)out->w + (size_t)(at.x - plan->change.x)) * 3;

        for (size_t i = 0; i < (size_t)at.w * 3; i++)
            to[i] += change->data[(size_t)y * (size_t)at.w * 3 + i];
    }
}

static bool on_progress(void *cookie, double done)
{
    const several *s = cookie;

    return !s->outer->progress || s->outer->progress(s->outer->cookie, (s->done + done) / s->plan->n_taken);
}

static void on_planned(void *cookie, const zn_footprint *need)
{
    const several *s = cookie;

    if (s->outer->planned)
        s->outer->planned(s->outer->cookie, need);
}

static void on_estimate(void *cookie, const zn_array *so_far)
{
    const several *s = cookie;
    zn_array sum = *s->out;

    if (!(sum.data = malloc(zn_array_len(&sum) * sizeof *sum.data)))
        return;
    memcpy(sum.data, s->out->data, zn_array_len(&sum) * sizeof *sum.data);
    add(&sum, s->plan, so_far, s->at);
    s->outer->estimate(s->outer->cookie, &sum);
    free(sum.data);
}

/* The plan for one of the faces. */
static zn_status plan_one(zn_face_plan *one, const zn_face_plan *all, int i, zn_error *err)
{
    zn_square square;
    const zn_status s = zn_square_get(&square, &all->faces[i], all->in_w, all->in_h, err);

    *one = *all;
    one->n_taken = 1;
    one->frame = all->faces[i];
    one->change = zn_square_bounds(&square, all->in_w, all->in_h);
    one->out = (zn_array){ NULL, one->change.h, one->change.w, 3 };
    return s;
}

static zn_status run_each(zn_face_result *result, const zn_face_plan *plan, const zn_face_picture *in, zn_array *out,
                          const zn_watcher *watch, zn_error *err)
{
    several each = { .outer = watch, .plan = plan, .out = out };
    zn_face_plan *one = malloc(sizeof *one);
    zn_status s = one ? ZN_OK : zn_fail(err, ZN_E_MEMORY, "out of memory");

    memset(out->data, 0, zn_array_len(out) * sizeof *out->data);
    for (; !s && each.done < plan->n_taken; each.done++) {
        const zn_watcher own = { .progress = on_progress,
                                 .planned = on_planned,
                                 .estimate = watch->estimate ? on_estimate : NULL,
                                 .cookie = &each,
                                 .keep = watch->keep };
        zn_array change;

        if ((s = plan_one(one, plan, each.done, err)))
            break;
        each.at = one->change;
        change = one->out;
        if (!(change.data = malloc(zn_array_len(&change) * sizeof *change.data)))
            s = zn_fail(err, ZN_E_MEMORY, "There is not enough memory for a frame of this size.");
        if (!s)
            s = zn_face_run_one(result, one, in, NULL, &change, &own, err);
        if (!s)
            add(out, plan, &change, one->change);
        free(change.data);
    }
    free(one);
    return s;
}

zn_status zn_face_run(zn_face_result *result, const zn_face_plan *plan, const zn_face_picture *in,
                      const zn_face_picture *second, zn_array *out, const zn_watcher *watch, zn_error *err)
{
    static const zn_watcher nobody;

    if (plan->n_taken < 2)
        return zn_face_run_one(result, plan, in, second, out, watch, err);
    *result = (zn_face_result){ .note = plan->note };
    if (!in || second || out->h != plan->out.h || out->w != plan->out.w || out->c != 3)
        return zn_fail(err, ZN_E_USAGE, "this is not what was planned");
    return run_each(result, plan, in, out, watch ? watch : &nobody, err);
}
