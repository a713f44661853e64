/* SPDX-License-Identifier: MIT */
/* test_leaks.c - a leak of one byte is found at the end of a program with ASan (leaks.h); for such a build. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

static void *volatile block;

/* Ends this process as main does, having freed or lost a block; its exit status. */
static int child(bool leaks)
{
    pid_t pid;
    int status = -1;

    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        block = malloc(1);
        if (!leaks)
            free(block);
        block = NULL;
        fclose(stderr); /* the report is expected */
        exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}

static void test_none(void)
{
    int status = child(false);

    CHECK(status == 0, "exit status %d", status);
}

static void test_one_byte(void)
{
    int status = child(true);

    CHECK(status > 0, "exit status %d", status);
}

int main(void)
{
    RUN(test_none);
    RUN(test_one_byte);
    return test_end();
}
