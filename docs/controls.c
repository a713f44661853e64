/* SPDX-License-Identifier: MIT */
/* controls.c - prints the controls of all filters for the manual, as the operations describe them, in the language of
 * LANGUAGE: "procedure, tab, label, tab, sentence", one a line. */
#include <gegl.h>
#include <locale.h>

#include "zenith-filters.h"
#include "zenith-settings.h"

static void print_control(const ZnFilter *filter, const ZnProperty *p)
{
    const gchar *nick = g_param_spec_get_nick(p->spec), *blurb = g_param_spec_get_blurb(p->spec);

    g_print("%s\t%s\t%s\n", filter->procedure, nick, blurb ? blurb : "");
}

int main(void)
{
    gint status = 0;

    setlocale(LC_ALL, "");
    zn_translate();
    gegl_init(NULL, NULL);
    for (guint i = 0; i < zn_n_filters && !status; i++) {
        GError *error = NULL;
        ZnSettings *settings = zn_settings_new(&zn_filters[i], &error);

        for (guint k = 0; settings && k < settings->n; k++)
            print_control(&zn_filters[i], &settings->property[k]);
        if (!settings) {
            g_printerr("%s\n", error->message);
            g_error_free(error);
            status = 1;
        }
        zn_settings_free(settings);
    }
    gegl_exit();

    return status;
}
