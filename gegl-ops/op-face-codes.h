/* SPDX-License-Identifier: MIT */
/* op-face-codes.h - the codes of a face and the pictures drawn from codes.  Codes and the
 * reconstruction are kept (op-cache.c), found by a hash of what the model sees. */

#ifndef __ZENITH_OP_FACE_CODES_H__
#define __ZENITH_OP_FACE_CODES_H__

#include "op-face.h"

enum /* places in task->model */
{
  ZN_OP_FACE_ENCODE,
  ZN_OP_FACE_SAMPLE /* in both directions */
};

/* One run of an operation. */
typedef struct _ZnOpFaceWork ZnOpFaceWork;

struct _ZnOpFaceWork
{
  const ZnOpFaceRun *run;
  ZnOpSquare         square;
  gint               side, code;
  gsize              len;         /* side * side * 3 */
  gdouble            done, total; /* evaluations of the U-Net */

  /* What the operation adds for a drawn face, [side][side][3]: called with the result and,
   * if the host shows them, with estimates of it */
  void (*paste) (zn_array *out, const ZnOpFaceWork *work, const gfloat *drawn);
  gconstpointer paste_data;
  gint64        shown_at; /* when an estimate was, in microseconds */
};

/* A picture of the work, in memory of its own. */
typedef struct
{
  ZnOpPart part;
  gfloat  *low;   /* [side][side][3], 0..1: what the model sees */
  GBytes  *codes; /* cond [code], then xT [side][side][3] */
  gboolean path;  /* ... and below xT the correction of each sampling step */
  gint     steps; /* from the picture to xT */
} ZnOpFacePicture;

/* The frame of run->in; run->out is 0. */
zn_status zn_op_face_work_begin (ZnOpFaceWork *work, const ZnOpFaceRun *run);

/* Shows the memory of the run: the models of the task, n pictures drawn at once. */
void zn_op_face_state_memory (const ZnOpFaceWork *work,
                              ZnOpModel *const   *model,
                              gint                n_models,
                              gint                n);

/* The next job is so many evaluations. */
void zn_op_face_work_part (ZnOpFaceWork *work, gint evaluations);

/* The picture in the frame, as the model sees it; zn_op_face_clear() frees what it holds.
 * own: NULL, or the picture's own frame; its part then lies where it is in the work's. */
zn_status zn_op_face_read (ZnOpFacePicture   *face,
                           ZnOpFaceWork      *work,
                           const ZnOpPicture *picture,
                           const ZnOpSquare  *own);
void      zn_op_face_clear (ZnOpFacePicture *face);

/* cond and xT, kept or made now; the evaluations that this will take. */
zn_status     zn_op_face_encode (ZnOpFacePicture *face, ZnOpFaceWork *work);
gint          zn_op_face_codes_cost (const ZnOpFacePicture *face, const ZnOpFaceWork *work);
const gfloat *zn_op_face_cond (const ZnOpFacePicture *face);
const gfloat *zn_op_face_noise (const ZnOpFacePicture *face, const ZnOpFaceWork *work);

/* cond alone, [code]. */
zn_status zn_op_face_code (gfloat *cond, const ZnOpFacePicture *face, ZnOpFaceWork *work);

/* What is drawn: n faces from noise [n][side][side][3] and cond [n][code]. */
typedef struct
{
  gint          n;
  const gfloat *noise, *cond;
  const gfloat *cond0; /* NULL, or what the edit is guided away from, [n][code] */
  gdouble       guide;
  gboolean      path;  /* noise is that of codes with a path; n is 1 */
  gint          from;  /* not 0: noise is pictures, -1..1, seen once with the noise of this time */
  gboolean      shows; /* estimates of the first are shown */
} ZnOpFaceDrawing;

/* dst [n][side][side][3], 0..1 but not cut. */
zn_status zn_op_face_draw (gfloat                *dst,
                           ZnOpFaceWork          *work,
                           ZnOpModel             *model,
                           const ZnOpFaceDrawing *drawing);

/* The reconstruction from the unchanged codes, cached or computed now; its evaluations. */
zn_status zn_op_face_draw_kept (GBytes               **made,
                                const ZnOpFacePicture *face,
                                ZnOpFaceWork          *work,
                                gboolean               shows);
gint      zn_op_face_kept_cost (const ZnOpFacePicture *face, const ZnOpFaceWork *work);

#endif
