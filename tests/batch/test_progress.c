/* SPDX-License-Identifier: MIT */
/* test_progress.c - what zenith-batch says while it works. */
#include "../unit/test.h"

#include <unistd.h>

#include "progress.h"

static char said[256];

/* The line for a bar that began some seconds ago; part of the next picture is done, and was for a while. */
static void line(ZnProgressBar *bar, unsigned done, double part, int since, int ago)
{
    const gint64 now = g_get_monotonic_time();
    FILE *f = tmpfile();
    const int kept = dup(STDERR_FILENO);

    if (!f || kept < 0)
        return;
    fflush(stderr);
    dup2(fileno(f), STDERR_FILENO);
    bar->start = now - since * G_USEC_PER_SEC;
    bar->done = done + part;
    bar->moved = now - ago * G_USEC_PER_SEC;
    bar->shown = 0;
    bar->terminal = FALSE;
    zn_progress_show(bar, done, 0, part);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(f);
    memset(said, 0, sizeof said);
    if (!fgets(said, sizeof said, f))
        said[0] = 0;
    fclose(f);
}

static void parts_of_pictures(void)
{
    ZnProgressBar bar;

    zn_progress_begin(&bar, 1);
    line(&bar, 0, 0, 60, 60);
    CHECK(!strcmp(said, "0 of 1 (0 %)\n"), "nothing is done: %s", said);
    line(&bar, 0, 0.25, 60, 0);
    CHECK(!strncmp(said, "0 of 1 (25 %), 3:00 left", 24), "a quarter in a minute: %s", said);
    line(&bar, 0, 0.25, 100, 40);
    CHECK(!strncmp(said, "0 of 1 (25 %), 2:20 left", 24), "40 s later: %s", said);
}

static void never_back(void)
{
    ZnProgressBar bar;

    zn_progress_begin(&bar, 4);
    zn_progress_show(&bar, 1, 0, 0.75);
    zn_progress_show(&bar, 1, 0, 0.0); /* filtered, and not yet written */
    CHECK(bar.done > 1.74 && bar.done < 1.76, "%g", bar.done);
    line(&bar, 2, 0, 120, 0);
    CHECK(!strncmp(said, "2 of 4 (50 %), 1.0 pictures/min, 2:00 left", 42), "%s", said);
}

int main(void)
{
    RUN(parts_of_pictures);
    RUN(never_back);
    return test_end();
}
