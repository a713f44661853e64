/* SPDX-License-Identifier: MIT */
/* op-face.c - the operations on faces; see the header. */

#include "config.h"

#include "op-engine.h"
#include "op-face.h"
#include "zenith_number.h"

#define MAX_NAMES 4096 /* bytes */

/* ---- describe ------------------------------------------------------------- */

void
zn_op_face_show_attributes (GeglOperation *operation, gchar **field, const gchar *model)
{
  gchar names[MAX_NAMES];

  zn_face_attributes (names, sizeof (names), model);
  zn_op_set_text (operation, "attributes", field, names);
}

gboolean
zn_op_face_describe (ZnOpWhole *task, const ZnOpFace *face)
{
  const zn_choice choice = zn_op_choice (&task->base);
  zn_face_plan    plan;
  zn_error        err;

  if (zn_face_describe (&plan, zn_op_session (), &choice, &face->how, task->result.width,
                        task->result.height, &err))
    task->refusal = err;
  task->settings      = plan.key;
  task->result.width  = plan.w;
  task->result.height = plan.h;
  if (face->second && *face->second)
    zn_key_add_file (&task->settings, face->second);

  return ! plan.nothing;
}

/* ---- locate --------------------------------------------------------------- */

/* The picture, and with `search` what its face is kept by. */
static zn_face_picture
get_picture (ZnOpPicture *picture, gboolean search)
{
  const GeglRectangle *box = &picture->box;
  zn_face_picture in = { { box->width, box->height, 3, zn_op_picture_read, picture }, { 0, 0 } };

  if (search)
    {
      zn_key_add_text (&in.key, babl_get_name (picture->format));
      zn_op_key_add_buffer (&in.key, picture->buffer, box, box);
    }

  return in;
}

/* Whether the input is a selection.  How a host says so:
 *
 *   g_object_set_data (G_OBJECT (node), "zenith-selected", GINT_TO_POINTER (1));
 */
static gboolean
is_selected (GeglOperation *operation)
{
  return operation->node && g_object_get_data (G_OBJECT (operation->node), "zenith-selected");
}

/* Shows where a face is: its centre from the corner of the input, its side and its angle. */
static void
show_frame (GeglOperation *operation, const ZnOpFace *face, const gdouble place[4])
{
  static const gchar *const property[4] = { "taken-x", "taken-y", "taken-size", "taken-angle" };
  gchar                     number[4][ZN_OP_TENTHS];
  gchar                    *text;

  for (gint i = 0; i < 4; i++)
    {
      zn_op_set_number (operation, property[i], face->taken[i], place[i]);
      zn_op_tenths (number[i], place[i]);
    }
  text = g_strjoin (" ", number[0], number[1], number[2], number[3], NULL);
  zn_op_set_text (operation, "frame", face->shown, text);
  g_free (text);
}

/* The plan for a picture whose face may have to be found. */
static zn_status
plan_found (zn_face_plan      *plan,
            const ZnOpWhole   *task,
            const ZnOpFace    *face,
            const ZnOpPicture *in,
            ZnOpRequest       *request)
{
  const zn_choice   choice  = zn_op_choice (&task->base);
  const ZnOpWatched watched = { request, face->memory };
  const zn_watcher  watcher = zn_op_watcher (&watched);
  ZnOpPicture       copy    = *in;
  zn_face_how       how     = face->how;
  zn_face_picture   picture;
  zn_status         status;

  if (how.search == ZN_SEARCH_FACE && is_selected (request->operation))
    how.search = ZN_SEARCH_OR_MIDDLE;
  status = zn_face_describe (plan, zn_op_session (), &choice, &how, in->box.width, in->box.height,
                             &request->err);
  if (status)
    return status;
  picture = get_picture (&copy, plan->searches);

  return zn_face_find (plan, &picture, &watcher, &request->err);
}

/* Shows the faces that were found. */
static void
show_faces (GeglOperation *operation, gchar **field, const zn_face_plan *plan)
{
  GString *text = g_string_new (NULL);

  for (gint i = 0; i < plan->n_faces; i++)
    {
      const zn_frame *f         = &plan->faces[i];
      const gdouble   number[4] = { f->x, f->y, f->size, f->angle };
      gchar           word[ZN_NUMBER_SIZE];

      for (gint k = 0; k < 4; k++)
        g_string_append_printf (text, "%s%s", text->len ? " " : "",
                                zn_number_print (word, number[k]));
    }
  zn_op_set_text (operation, "faces", field, text->str);
  g_string_free (text, TRUE);
}

zn_status
zn_op_face_locate (ZnOpWhole         *task,
                   const ZnOpFace    *face,
                   const ZnOpPicture *in,
                   ZnOpRequest       *request)
{
  const GeglRectangle box = in->box;
  zn_face_plan        plan;
  zn_status           status = plan_found (&plan, task, face, in, request);

  if (! status && face->faces)
    show_faces (request->operation, face->faces, &plan);
  if (status)
    return status;

  zn_note_add (&request->note, plan.note.text);
  task->found    = plan.found;
  task->place[0] = plan.frame.x;
  task->place[1] = plan.frame.y;
  task->place[2] = plan.frame.size;
  task->place[3] = plan.frame.angle;
  task->copies   = plan.w / box.width;
  task->change   = *GEGL_RECTANGLE (box.x + plan.change.x, box.y + plan.change.y, plan.change.w,
                                    plan.change.h);
  zn_key_add (&task->settings, &plan.key, sizeof (plan.key)); /* has the frames */
  show_frame (request->operation, face, task->place);

  return ZN_OK;
}

/* ---- run ------------------------------------------------------------------ */

/* The second picture of a file; its buffer is the caller's. */
static zn_status
load_second (ZnOpPicture *picture, const gchar *path, ZnOpRequest *request)
{
  GeglNode   *graph, *load, *sink;
  zn_error    err;
  const Babl *format;

  if (! path || ! *path)
    return zn_op_request_refuse (
        request, ZN_E_USAGE,
        "There is no second picture yet: choose a layer or a file (in graphs: path, aux).");
  if (! g_file_test (path, G_FILE_TEST_IS_REGULAR))
    return zn_op_request_refuse (request, ZN_E_FILE, "There is no file '%s'.", path);

  graph = gegl_node_new ();
  load  = gegl_node_new_child (graph, "operation", "gegl:load", "path", path, NULL);
  sink  = gegl_node_new_child (graph, "operation", "gegl:buffer-sink", "buffer", &picture->buffer,
                               NULL);
  gegl_node_link (load, sink);
  gegl_node_process (sink);
  g_object_unref (graph);

  if (! picture->buffer || ! zn_op_check_box (gegl_buffer_get_extent (picture->buffer), &err))
    return zn_op_request_refuse (request, ZN_E_FILE, "'%s' is not a picture that can be read.",
                                 path);

  format          = gegl_buffer_get_format (picture->buffer);
  picture->box    = *gegl_buffer_get_extent (picture->buffer);
  picture->format = babl_format_with_space (babl_format_has_alpha (format) ? "R'G'B'A float"
                                                                           : "R'G'B' float",
                                            babl_format_get_space (format));

  return ZN_OK;
}

/* The plan that locate() made, whose frame is the task's; all faces are found again. */
static zn_status
plan_again (zn_face_plan          *plan,
            const ZnOpWhole       *task,
            const ZnOpFace        *face,
            const ZnOpPicture     *picture,
            const zn_face_picture *in,
            ZnOpRequest           *request)
{
  const zn_choice choice = zn_op_choice (&task->base);
  const gdouble  *place  = task->place;
  zn_face_how     how    = face->how;
  zn_status       status;

  if (in && face->faces && ! how.face && task->found)
    return plan_found (plan, task, face, picture, request);
  if (in)
    how.frame = (zn_frame){ place[0], place[1], place[2], place[3] };
  status = zn_face_describe (plan, zn_op_session (), &choice, &how, in ? in->source.w : 0,
                             in ? in->source.h : 0, &request->err);
  if (! status && in)
    status = zn_face_find (plan, in, NULL, &request->err);
  plan->found = task->found;

  return status;
}

zn_status
zn_op_face_run (const ZnOpWhole   *task,
                const ZnOpFace    *face,
                const ZnOpPicture *in,
                gint               n_in,
                zn_array          *out,
                ZnOpRequest       *request)
{
  const ZnOpWatched watched    = { request, face->memory };
  const zn_watcher  watcher    = zn_op_watcher (&watched);
  const gboolean    two        = face->how.task == ZN_FACE_INTERPOLATE;
  const gboolean    loads      = two && n_in < 2;
  ZnOpPicture       picture[2] = { { NULL }, { NULL } };
  zn_status         status     = ZN_OK;
  zn_face_picture   each[2];
  zn_face_result    result;
  zn_face_plan      plan;

  for (gint i = 0; i < n_in; i++)
    picture[i] = in[i];
  if (loads)
    status = load_second (&picture[1], face->second, request);
  if (! status)
    {
      each[0] = get_picture (&picture[0], FALSE);
      each[1] = get_picture (&picture[1], two && task->found);
      status  = plan_again (&plan, task, face, &in[0], n_in ? &each[0] : NULL, request);
    }
  if (! status)
    {
      status = zn_face_run (&result, &plan, n_in ? &each[0] : NULL, two ? &each[1] : NULL, out,
                            &watcher, &request->err);
      request->ran         = TRUE;
      request->computed_by = result.computed_by;
      zn_note_add (&request->note, result.note.text);
    }
  if (loads)
    g_clear_object (&picture[1].buffer);

  return status;
}
