/* SPDX-License-Identifier: MIT */
/* graphs.c - random graphs of GEGL nodes around the operations, with random values of every property: odd numbers, odd
 * texts, odd rectangles.  The program itself is built with sanitizers, so the module may be, too.
 *
 * Failures, besides crashes: a status that is not a line of UTF-8; pixels that are not finite, from finite ones; pixels
 * that changed although the status says that they passed through. */
#include "attack.h"

#include "../gegl/ops.h"

static const char *const ours[] = { "zenith:denoise",           "zenith:latent-preview",
                                    "zenith:latent-encode",     "zenith:latent-decode",
                                    "zenith:wan-video",         "zenith:diffae-reconstruct",
                                    "zenith:diffae-manipulate", "zenith:diffae-interpolate",
                                    "zenith:diffae-sample",     "zenith:z-image",
                                    "zenith:identity",          "zenith:identity-pair",
                                    "zenith:identity-source" };
static const char *const others[] = { "gegl:nop",    "gegl:invert-linear", "gegl:opacity",       "gegl:translate",
                                      "gegl:crop",   "gegl:scale-ratio",   "gegl:gaussian-blur", "gegl:cache",
                                      "gegl:rotate", "gegl:reflect",       "gegl:color-overlay" };
static const char *const formats[] = { "R'G'B'A float", "R'G'B' u8",  "RGBA float",   "Y' u8",
                                       "Y'A u16",       "R'G'B'A u8", "RGB float",    "RaGaBaA float",
                                       "CIE Lab float", "Y float",    "R'G'B' double" };

static const char *const texts[] = { "",
                                     "auto",
                                     "scalar",
                                     "neon",
                                     "avx2",
                                     "cuda",
                                     "nonsense",
                                     "taesd",
                                     "taef1",
                                     "zenith-tae",
                                     "fast",
                                     "/dev/null",
                                     "/",
                                     "..",
                                     "smile",
                                     "age",
                                     "\xff\xfe",
                                     "%s%n",
                                     "\xe2\x82",
                                     "fp32",
                                     "int4",
                                     "bf16",
                                     DATA_DIR "/taesd_decoder.pth",
                                     DATA_DIR "/taesana_encoder.pth",
                                     DATA_DIR "/denoise.safetensors",
                                     DATA_DIR "/diffae.ckpt",
                                     SOURCE_DIR "/docs/samples/chelsea.png",
                                     SOURCE_DIR "/tests/data/weights/bare.pt",
                                     SOURCE_DIR "/tests/fuzz/corpus/bad-pt-cycle",
                                     "a\nb" };

static double odd_double(rnd *r)
{
    static const double list[] = { NAN, INFINITY, -INFINITY, 1e308, -1e308, 0, -0.0, 1e-320, 0.5, 1, -1, 255, 1e9 };

    return ONE_OF(r, list);
}

static void set_property(GeglNode *node, GParamSpec *spec, rnd *r)
{
    const GType type = G_PARAM_SPEC_VALUE_TYPE(spec);
    /* excludes what would take minutes, not what could fail */
    const gboolean long_loop = strstr(spec->name, "steps") != NULL;

    if (!(spec->flags & G_PARAM_WRITABLE) || spec->flags & G_PARAM_CONSTRUCT_ONLY || !strcmp(spec->name, "status") ||
        !strcmp(spec->name, "note") || !strcmp(spec->name, "measured")) /* written by the operation */
        return;
    if (type == G_TYPE_DOUBLE) {
        const GParamSpecDouble *d = G_PARAM_SPEC_DOUBLE(spec);

        gegl_node_set(node, spec->name,
                      chance(r, 25)
                          ? odd_double(r)
                          : d->minimum + (double)below(r, 1001) / 1000 * (MIN(d->maximum, 100) - MAX(d->minimum, -100)),
                      NULL);
    } else if (type == G_TYPE_INT) {
        const GParamSpecInt *i = G_PARAM_SPEC_INT(spec);

        gegl_node_set(node, spec->name,
                      long_loop ? i->minimum + (gint)below(r, 3)
                          : chance(r, 25)
                          ? (gint)odd_number(r)
                          : i->minimum + (gint)below(r, (size_t)MIN((gint64)i->maximum - i->minimum + 1, 64)),
                      NULL);
    } else if (type == G_TYPE_UINT) {
        gegl_node_set(node, spec->name, (guint)odd_number(r), NULL);
    } else if (type == G_TYPE_BOOLEAN) {
        gegl_node_set(node, spec->name, (gboolean)chance(r, 50), NULL);
    } else if (type == G_TYPE_STRING) {
        gegl_node_set(node, spec->name, chance(r, 90) ? ONE_OF(r, texts) : NULL, NULL);
    } else if (G_TYPE_IS_ENUM(type)) {
        GEnumClass *klass = g_type_class_ref(type);

        gegl_node_set(node, spec->name,
                      chance(r, 95) ? klass->values[below(r, klass->n_values)].value : (gint)odd_number(r), NULL);
        g_type_class_unref(klass);
    }
}

static void set_some(GeglNode *node, rnd *r, int percent)
{
    guint n = 0;
    GParamSpec **list = gegl_operation_list_properties(gegl_node_get_operation(node), &n);

    for (guint i = 0; i < n; i++)
        if (chance(r, percent) || strstr(list[i]->name, "steps"))
            set_property(node, list[i], r);
    g_free(list);
    if (!strncmp(gegl_node_get_operation(node), "zenith:latent-", 14) && chance(r, 80)) { /* weights that are there */
        static const char *const models[] = { "model=taesd", "model=taef1", "model=taef2", "model=taesana" };

        set_properties(node, ONE_OF(r, models));
        if (chance(r, 80))
            set_properties(node, "weights=");
    }
    if (!strcmp(gegl_node_get_operation(node),
                "zenith:z-image")) { /* a prompt, small pictures, weights that are there */
        gegl_node_set(node, "width", 16 + (gint)below(r, 64), "height", 16 + (gint)below(r, 64), NULL);
        if (chance(r, 80))
            gegl_node_set(node, "prompt", chance(r, 50) ? "a cat" : "\xe7\x8c\xab, 1234 <|im_end|>", "weights", "",
                          NULL);
    }
}

static GeglBuffer *odd_picture(rnd *r, gboolean *finite)
{
    const gint w = 1 + (gint)below(r, chance(r, 10) ? 200 : 40), h = 1 + (gint)below(r, 40);
    const char *const format = ONE_OF(r, formats);
    GeglBuffer *b = picture(format, chance(r, 70) ? 0 : (gint)below(r, 3000) - 1500, chance(r, 70) ? 0 : -7, w, h,
                            (guint)below(r, 50));

    *finite = TRUE;
    if (chance(r, 15)) {
        static const gfloat odd[] = { NAN, INFINITY, -INFINITY, 1e30f, -1e30f, 1e-42f };
        gfloat pixel[4] = { ONE_OF(r, odd), 0.5f, ONE_OF(r, odd), chance(r, 50) ? 1 : ONE_OF(r, odd) };
        GeglRectangle at = *gegl_buffer_get_extent(b);

        at.x += (gint)below(r, (size_t)at.width);
        at.width = at.height = 1;
        gegl_buffer_set(b, &at, 0, babl_format("RGBA float"), pixel, GEGL_AUTO_ROWSTRIDE);
        *finite = FALSE;
    }
    return b;
}

static bool status_good(GeglNode *op, const char **why)
{
    gchar *text = NULL;
    bool ok;

    if (!gegl_node_find_property(op, "status"))
        return true;
    gegl_node_get(op, "status", &text, NULL);
    *why = "the status is no line of UTF-8";
    ok = !text || (g_utf8_validate(text, -1, NULL) && !strchr(text, '\n'));
    g_free(text);
    return ok;
}

static bool blit(GeglNode *op, rnd *r, bool must_be_finite, const char **why)
{
    GeglRectangle box = gegl_node_get_bounding_box(op), roi;
    gfloat *data;
    bool ok = true;

    roi = (GeglRectangle){ box.x + (gint)below(r, 20) - 5, box.y + (gint)below(r, 20) - 5, 1 + (gint)below(r, 70),
                           1 + (gint)below(r, 70) };
    if (chance(r, 30))
        roi = *GEGL_RECTANGLE((gint)below(r, 100) - 50, (gint)below(r, 100) - 50, 30, 20);
    if (chance(r, 30) && box.width > 0 && box.height > 0 && box.width <= 400 && box.height <= 400)
        roi = box;
    data = g_new0(gfloat, (gsize)roi.width * (gsize)roi.height * 4);
    gegl_node_blit(op,
                   chance(r, 85)       ? 1.0
                       : chance(r, 50) ? 0.5
                                       : 2.0,
                   &roi, babl_format("R'G'B'A float"), data, GEGL_AUTO_ROWSTRIDE,
                   chance(r, 70) ? GEGL_BLIT_DEFAULT : GEGL_BLIT_CACHE);
    *why = "pixels that are not finite, out of finite ones";
    for (gsize i = 0; must_be_finite && i < (gsize)roi.width * (gsize)roi.height * 4; i++)
        ok = ok && isfinite(data[i]);
    g_free(data);
    return ok;
}

/* One operation after a picture: whatever is wrong, the picture passes. */
static bool run_one(const bytes *b, rnd *r, const char **why)
{
    static const char *const filter[] = { "zenith:denoise", "zenith:latent-preview", "zenith:diffae-reconstruct",
                                          "zenith:diffae-manipulate", "zenith:z-image" };
    const char *const name = chance(r, 90) ? filter[chance(r, 80) ? below(r, 2) : below(r, 5)] : ONE_OF(r, ours);
    gboolean finite;
    GeglBuffer *input = odd_picture(r, &finite);
    const GeglRectangle box = *gegl_buffer_get_extent(input);
    Run run = run_new(name, "", input);
    gchar *status;
    bool ok;

    (void)b;
    set_some(run.op, r, chance(r, 50) ? 30 : 80);
    ok = blit(run.op, r, finite, why) && status_good(run.op, why);
    status = gegl_node_find_property(run.op, "status") ? run_status(&run) : g_strdup("");
    if (ok && *status && finite && gegl_node_has_pad(run.op, "input") && strncmp(name, "zenith:latent-", 14) &&
        strncmp(name, "zenith:identity", 15)) {
        gfloat *was = pixels_of(input, &box, "R'G'B'A float"), *is = run_pixels(&run, &box);

        *why = "the status says why nothing was done, but pixels changed";
        status = (g_free(status), run_status(&run));
        ok = !*status || difference(was, is, (gsize)box.width * (gsize)box.height * 4) < 1e-5;
        g_free(was);
        g_free(is);
    }
    if (ok && chance(r, 30)) { /* other values in the same graph */
        set_some(run.op, r, 30);
        ok = blit(run.op, r, finite, why) && status_good(run.op, why);
    }
    g_free(status);
    run_free(&run);
    g_object_unref(input);
    return ok;
}

/* Several nodes in any order, some with a second input, some with none. */
static bool run_graph(const bytes *b, rnd *r, const char **why)
{
    GeglNode *graph = gegl_node_new(), *node[6] = { NULL };
    gboolean finite;
    GeglBuffer *input = odd_picture(r, &finite);
    const int n = 2 + (int)below(r, 4);
    bool ok = true;

    (void)b;
    node[0] = chance(r, 90)
        ? gegl_node_new_child(graph, "operation", "gegl:buffer-source", "buffer", input, NULL)
        : gegl_node_new_child(graph, "operation", chance(r, 50) ? "gegl:color" : "gegl:checkerboard", NULL);
    for (int i = 1; i <= n; i++) {
        const char *const name = chance(r, 60) ? ONE_OF(r, ours) : ONE_OF(r, others);

        node[i] = gegl_node_new_child(graph, "operation", name, NULL);
        if (!strncmp(name, "zenith:", 7))
            set_some(node[i], r, 30);
        if (!strcmp(name, "gegl:crop"))
            gegl_node_set(node[i], "width", (double)below(r, 50), "height", (double)below(r, 50), NULL);
        if (!strcmp(name, "gegl:scale-ratio"))
            gegl_node_set(node[i], "x", 0.5, "y", 1.5, NULL);
        if (gegl_node_has_pad(node[i], "input") && !chance(r, 2))
            gegl_node_connect_to(node[i - 1], "output", node[i], "input");
        if (gegl_node_has_pad(node[i], "aux") && chance(r, 60))
            gegl_node_connect_to(node[below(r, (size_t)i)], "output", node[i], "aux");
    }
    ok = blit(node[n], r, false, why);
    for (int i = 1; ok && i <= n; i++)
        ok = status_good(node[i], why);
    if (ok && chance(r, 20)) { /* a node in the middle changes or goes */
        GeglNode *middle = node[1 + below(r, (size_t)n)];

        if (chance(r, 50) && gegl_node_has_pad(middle, "input"))
            gegl_node_disconnect(middle, "input");
        else if (!strncmp(gegl_node_get_operation(middle), "zenith:", 7))
            set_some(middle, r, 50);
        ok = blit(node[n], r, false, why);
    }
    g_object_unref(graph);
    g_object_unref(input);
    return ok;
}

static void begin(void)
{
    static char name[] = "attack_graphs", *list[] = { name, NULL };
    char **argv = list;
    int argc = 1;

    g_setenv("TMPDIR", attack_folder(), TRUE);
    g_setenv("ZENITH_CACHE", "16", FALSE);
    if (!ops_begin(&argc, &argv) || !ops_make_zimage("z-image", ""))
        exit(2);
}

int main(int argc, char **argv)
{
    static const attack_target list[] = { { "operation", NULL, run_one, 120, 400, true },
                                          { "graph", NULL, run_graph, 120, 400, true } };

    return attack_main(argc, argv, list, sizeof list / sizeof *list, begin);
}
