/* SPDX-License-Identifier: MIT */
/* op-face-blend.h - from a change at the model's size to one at the picture's: bicubic,
 * feathered, with or without the structure that the model cannot see. */

#ifndef __ZENITH_OP_FACE_BLEND_H__
#define __ZENITH_OP_FACE_BLEND_H__

#include "op-face-codes.h"

#define ZN_OP_FIELDS 8

/* What is done to the picture, at the model's size: value 0..2 is added, value 3..5 is
 * what the model saw, value 6 is the gain of the structure that it did not see. */
typedef gfloat ZnOpField[ZN_OP_FIELDS];

/* to - from is added; the fine structure is multiplied by 1 + gain.  [side][side], freed
 * with g_free(). */
ZnOpField *zn_op_field_new (const ZnOpFaceWork *work,
                            const gfloat       *to,
                            const gfloat       *from,
                            const gfloat       *low,
                            gfloat              gain);

/* The gain is 0 where nothing is added and -cut where much is: the mean, over 5 x 5
 * values, of the largest channel. */
void zn_op_field_cut_fine (ZnOpField *field, gint side, gfloat cut);

/* out, which lies where the part does, gets the change. */
void zn_op_field_paste (zn_array         *out,
                        const ZnOpField  *field,
                        gint              side,
                        const ZnOpSquare *square,
                        const ZnOpPart   *part);

#endif
