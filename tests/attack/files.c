/* SPDX-License-Identifier: MIT */
/* files.c - generated files for the readers around GEGL: presets, attribute files, the pictures that zenith-batch reads. */
#include "attack.h"
#include "costly.h"
#include "generate.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "metadata.h"
#include "pipeline/face.h"
#include "picture.h"
#include "zenith-preset.h"

/* ---- presets ------------------------------------------------------------------------------------------------------------ */

static attack_seeds presets;

static void make_preset(bytes *b, rnd *r)
{
    static const char *const keys[] = { "name",    "description", "operation", "strength", "model",
                                        "sigma",   "chroma",      "x y",       "",         "mode",
                                        "weights", "steps",       "engine" };
    static const char *const values[] = { "zenith:denoise",
                                          "zenith:latent-preview",
                                          "gegl:load",
                                          "1.0",
                                          "nan",
                                          "inf",
                                          "-1e999",
                                          "fast",
                                          "\xff\xff",
                                          "",
                                          "a=b",
                                          "../x",
                                          "0x10",
                                          "1,5",
                                          "\t",
                                          "High ISO" };

    if (chance(r, 40)) {
        const bytes *seed = &presets.list[below(r, (size_t)presets.n)];

        put(b, seed->at, seed->len);
        mutate(b, r, 5);
        return;
    }
    if (!chance(r, 5))
        put_text(b, "name=Preset\noperation=%s\n", ONE_OF(r, values));
    for (size_t i = below(r, chance(r, 2) ? 200 : 6); i; i--) {
        put_text(b, "%s%s%s%s", chance(r, 5) ? "# " : "", ONE_OF(r, keys), chance(r, 95) ? "=" : " ",
                 ONE_OF(r, values));
        if (chance(r, 1))
            put_fill(b, 'v', below(r, 5000));
        put(b, &"\n\r\0 "[chance(r, 95) ? 0 : below(r, 4)], 1);
    }
}

static bool run_preset(const bytes *b, rnd *r, const char **why)
{
    GPtrArray *list;
    GError *error = NULL;
    bool ok;

    (void)r;
    mkdir(attack_path("presets"), 0700);
    bytes_save(b, attack_path("presets/x.preset"));
    list = zn_presets_load();
    *why = "the file is not in the list";
    ok = list->len == 1;
    if (ok) {
        const ZnPreset *p = list->pdata[0];
        const ZnPreset *found = zn_presets_find(list, "x", &error);

        *why = "a broken preset was found, or a good one was not";
        ok = (found != NULL) == (p->broken == NULL) && (found || (error && *error->message));
        g_clear_error(&error);
        *why = "a name that is not UTF-8";
        ok = ok && (p->broken || g_utf8_validate(p->name, -1, NULL)) &&
            (!p->broken || g_utf8_validate(p->broken, -1, NULL));
    }
    g_ptr_array_unref(list);
    return ok;
}

/* ---- attribute files -------------------------------------------------------------------------------------------------------- */

enum { CODE = 8 };

static void make_attributes(bytes *b, rnd *r)
{
    const int wrong = chance(r, 60) ? 8 : 0;
    const size_t rows = 1 + below(r, 4), code = chance(r, wrong) ? below(r, 20) : CODE;
    const size_t hidden = 1 + below(r, 3), cells = 1 + below(r, 4), other = chance(r, wrong) ? 1 + below(r, 9) : code;
    const size_t shapes[][4] = { { rows, code },
                                 { chance(r, wrong) ? below(r, 20) : code },
                                 { chance(r, wrong) ? below(r, 9) : rows },
                                 { chance(r, wrong) ? below(r, 9) : rows },
                                 { code },
                                 { rows, 2, code },
                                 { rows, 2, hidden, other },
                                 { rows, chance(r, wrong) ? 1 : 2, hidden },
                                 { rows, 2, code, hidden },
                                 { cells * cells, other },
                                 { cells * cells },
                                 { rows, cells, chance(r, wrong) ? below(r, 9) : cells } };
    static const char *const names[] = { "directions", "std",         "step",       "guide",
                                         "mean",       "move.shift",  "move.inner", "move.bias",
                                         "move.outer", "mask.weight", "mask.bias",  "mask.region" };
    static const int n_dims[] = { 2, 1, 1, 1, 1, 3, 4, 3, 4, 2, 1, 3 };
    const int n = chance(r, 40) ? 4 : chance(r, 30) ? 9 : 12;
    static const char *const lists[] = {
        "smile", "smile,age", "age,smile,x", "a,b,c,smile", "", ",,,", "smile,\xc3\xa9"
    };
    bytes header = { 0 }, data = { 0 };

    if (chance(r, 10)) {
        make_safetensors(b, r);
        return;
    }
    put_text(&header, "{\"__metadata__\":{\"names\":\"%s\",\"model\":\"%s\"}", ONE_OF(r, lists),
             chance(r, 90) ? "m" : "other");
    for (int i = 0; i < n; i++) {
        const int dims = chance(r, wrong) ? 1 : n_dims[i];
        const size_t at = data.len;
        size_t size = 1;

        if (chance(r, wrong))
            continue;
        for (int d = 0; d < n_dims[i]; d++)
            size *= shapes[i][d];
        for (size_t k = 0; k < size; k++) {
            const float v = chance(r, 2) && wrong ? (float)odd_number(r) / 0.f : (float)(1 + below(r, 100)) / 50;

            put(&data, &v, 4);
        }
        put_text(&header, ",\"%s\":{\"dtype\":\"F32\",\"shape\":[", names[i]);
        for (int d = 0; d < dims; d++)
            put_text(&header, "%s%zu", d ? "," : "", dims == n_dims[i] ? shapes[i][d] : size);
        put_text(&header, "],\"data_offsets\":[%zu,%zu]}", at, data.len);
    }
    put(&header, "}", 1);
    put_safetensors(b, &header, &data);
    if (chance(r, 10))
        mutate(b, r, 2);
    bytes_free(&header);
    bytes_free(&data);
}

static bool run_attributes(const bytes *b, rnd *r, const char **why)
{
    zn_attribute attribute = { 0 };
    zn_error err = { "" };
    volatile float sum = 0;
    bool ok;

    bytes_save(b, attack_path("x.attributes.safetensors"));
    if (zn_attribute_find(&attribute, &(zn_face_change){ "smile", chance(r, 50) ? 1 : -1 }, "m", CODE, &err)) {
        zn_attribute_clear(&attribute);
        *why = "no sentence, or one that is no line of UTF-8";
        return *err.text && g_utf8_validate(err.text, -1, NULL) && !strchr(err.text, '\n');
    }
    for (int i = 0; i < CODE; i++)
        sum += attribute.shift[i];
    for (int i = 0; i < attribute.hidden * CODE; i++)
        sum += attribute.inner[i] + attribute.outer[i] + attribute.bias[i / CODE];
    for (int i = 0; i < attribute.cells * attribute.cells * CODE; i++)
        sum += attribute.mask_weight[i] + attribute.mask_bias[i / CODE] + attribute.region[i / CODE];
    *why = "numbers that are none were taken";
    ok = sum - sum == 0 && attribute.guide >= 0 && attribute.guide <= 20;
    zn_attribute_clear(&attribute);
    return ok;
}

/* ---- pictures --------------------------------------------------------------------------------------------------------------- */

static ZnBudget budget;

static bool run_picture(const bytes *b, rnd *r, const char **why)
{
    const char *path = attack_path("picture");
    const ZnFormat *format;
    ZnPicture *picture = NULL;
    GError *error = NULL;
    bool ok = true;
    int fd;

    bytes_save(b, path);
    fd = open(path, O_RDONLY);
    format = zn_format_by_content(fd);
    if (format)
        picture = zn_picture_load(fd, format, &budget, &error);
    close(fd);
    *why = "no picture and no sentence";
    if (format && !picture)
        ok = error && *error->message;
    *why = "a sentence that is no UTF-8";
    ok = ok && (!error || g_utf8_validate(error->message, -1, NULL));
    g_clear_error(&error);
    if (picture && chance(r, 20)) { /* what was read can be written */
        fd = open(attack_path("written"), O_RDWR | O_CREAT | O_TRUNC, 0600);
        *why = "a picture that was read cannot be written in its own format, and nobody says why";
        ok = zn_picture_save(picture, format, fd, &error) || (error && *error->message);
        g_clear_error(&error);
        close(fd);
    }
    if (picture)
        zn_picture_free(picture);
    return ok;
}

/* ---- small pictures that make a reader work ------------------------------------------------------------------------------- */

size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

/* The peak of resident memory since the last call, in bytes; 0 where the system or the sanitizer does not say. */
static uint64_t peak_memory(void)
{
    unsigned long long kib = 0;
    char line[128];
    FILE *f = fopen("/proc/self/status", "r");

    while (f && fgets(line, sizeof line, f))
        sscanf(line, "VmHWM: %llu", &kib);
    if (f)
        fclose(f);
    f = fopen("/proc/self/clear_refs", "w");
    if (!f || fputs("5", f) < 0 || fclose(f) || __sanitizer_get_current_allocated_bytes)
        return 0;
    return kib << 10;
}

/* All that zenith-batch does with a picture beside the filter, for no more memory than was charged. */
static bool run_costly(const bytes *b, rnd *r, const char **why)
{
    const char *path = attack_path("picture");
    const ZnFormat *format;
    ZnPicture *picture = NULL;
    ZnShare share;
    GError *error = NULL;
    uint64_t before, peak;
    bool ok = true;
    int fd, to = open(attack_path("written"), O_RDWR | O_CREAT | O_TRUNC, 0600);

    bytes_save(b, path);
    fd = open(path, O_RDONLY);
    zn_share_begin(&share, &budget, b->len);
    peak_memory();
    before = peak_memory();
    format = zn_format_by_content(fd);
    if (format)
        picture = zn_picture_load(fd, format, &budget, &error);
    *why = "no picture and no sentence";
    ok = !format || picture || (error && *error->message);
    if (picture && chance(r, 50)) {
        zn_metadata_mark(picture, "attack", NULL);
        ok = zn_picture_save(picture, format, to, &error) || (error && *error->message);
    } else if (picture) {
        ok = zn_metadata_charge(picture, &error) && zn_picture_save(picture, &zn_format_tiff, to, &error) &&
            zn_metadata_transfer(picture, fd, to, "attack", &error) && zn_picture_is_whole(to, &zn_format_tiff, &error);
        ok = ok || (error && *error->message);
    }
    peak = peak_memory();
    if (ok && peak > before + share.memory_max) {
        *why = "more memory than a file of its size may take";
        ok = false;
    }
    g_clear_error(&error);
    if (picture)
        zn_picture_free(picture);
    close(fd);
    close(to);
    return ok;
}

static void begin(void)
{
    attack_load(&presets, ZN_SOURCE_ROOT "/presets", "");
    g_setenv("ZENITH_PRESETS", attack_path("presets"), TRUE);
    g_setenv("ZENITH_MODELS", attack_folder(), TRUE);
    g_setenv("XDG_DATA_HOME", attack_folder(), TRUE);
    g_setenv("GEGL_PATH", "/nowhere", TRUE); /* babl is needed, no operation */
    zn_metadata_init();
    gegl_init(NULL, NULL);
    zn_budget_init(&budget);
}

int main(int argc, char **argv)
{
    static const attack_target list[] = {
        { "preset", make_preset, run_preset, 0, 0, true },
        { "attributes", make_attributes, run_attributes, 0, 0, true },
        { "batch-png", make_png, run_picture, 0, 50000, true },
        { "batch-jpeg", make_jpeg, run_picture, 0, 50000, true },
        { "batch-tiff", make_tiff, run_picture, 0, 50000, true },
        { "batch-webp", make_webp, run_picture, 0, 50000, true },
        { "batch-costly", make_costly, run_costly, 60, 2000, true },
    };

    return attack_main(argc, argv, list, sizeof list / sizeof *list, begin);
}
