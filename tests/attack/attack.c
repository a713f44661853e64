/* SPDX-License-Identifier: MIT */
#include "attack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    HANG_S = 20,
    SLICE_MS = 20000,   /* of a child: then the state is written */
    MOST_FAILURES = 25, /* of a target in one call: then it rests */
};

typedef struct shared {               /* the child tells the parent */
    volatile uint64_t next, began_ms; /* of its own processor's time: the machine may be busy */
    volatile bool over;
} shared;

static shared *now;
static char folder[64];

static uint64_t ms_of(clockid_t clock)
{
    struct timespec t = { 0 };

    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static uint64_t ms(void)
{
    return ms_of(CLOCK_MONOTONIC);
}

const char *attack_folder(void)
{
    if (!*folder) {
        snprintf(folder, sizeof folder, "%s/zenith-attack-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
        if (!mkdtemp(folder))
            abort();
    }
    return folder;
}

const char *attack_path(const char *name)
{
    static char path[3][256];
    static int turn;

    turn = (turn + 1) % 3;
    snprintf(path[turn], sizeof path[turn], "%s/%s", attack_folder(), name);
    return path[turn];
}

static void empty_folder(const char *path)
{
    DIR *d = opendir(path);
    struct dirent *e;

    while (d && (e = readdir(d))) {
        char name[600];

        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        if (unlink(name))
            empty_folder(name);
    }
    if (d)
        closedir(d);
    rmdir(path);
}

void attack_load(attack_seeds *s, const char *path, const char *prefix)
{
    struct dirent **names = NULL;
    int n = scandir(path, &names, NULL, alphasort);

    s->list = calloc((size_t)(n > 0 ? n : 1), sizeof *s->list);
    if (!s->list)
        abort();
    for (int i = 0; i < n; i++) {
        char name[1024];

        snprintf(name, sizeof name, "%s/%s", path, names[i]->d_name);
        if (names[i]->d_name[0] != '.' && !strncmp(names[i]->d_name, prefix, strlen(prefix)) &&
            bytes_load(&s->list[s->n], name))
            s->n++;
        free(names[i]);
    }
    free(names);
    if (!s->n) {
        fprintf(stderr, "%s: no files %s*\n", path, prefix);
        exit(2);
    }
}

/* ---- one case --------------------------------------------------------------------------------------------------------- */

static rnd rnd_of(const attack_target *t, uint64_t seed)
{
    rnd r = { seed };

    for (const char *p = t->name; *p; p++)
        r.state = r.state * 31 + (uint8_t)*p;
    rnd_next(&r);
    return r;
}

static bool run_bytes(const attack_target *t, const bytes *b, rnd *r, const char **why)
{
    bytes exact = { malloc(b->len + !b->len), b->len, b->len }; /* so that the sanitizer sees its end */
    bool ok;

    if (!exact.at)
        abort();
    if (b->len)
        memcpy(exact.at, b->at, b->len);
    *why = "";
    ok = t->run(&exact, r, why);
    free(exact.at);
    return ok;
}

/* Leaks are counted case by case: at the end of a process nobody would know whose they are. */
size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));
const char *__asan_default_options(void);

__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
    return "detect_leaks=0:allocator_may_return_null=1";
}

static size_t allocated(void)
{
    return __sanitizer_get_current_allocated_bytes ? __sanitizer_get_current_allocated_bytes() : 0;
}

static bool run_case(const attack_target *t, uint64_t seed, bytes *room, const char **why)
{
    rnd r = rnd_of(t, seed), again;
    size_t before;

    room->len = 0;
    if (t->make)
        t->make(room, &r);
    again = r;
    before = allocated();
    if (!run_bytes(t, room, &r, why))
        return false;
    for (int i = 0; i < 2 && !t->keeps && allocated() > before; i++) { /* the first time, a library may keep some */
        if (i == 1) {
            *why = "memory leaks";
            return false;
        }
        before = allocated();
        r = again;
        if (!run_bytes(t, room, &r, why))
            return false;
    }
    return true;
}

/* ---- children --------------------------------------------------------------------------------------------------------- */

static void child(const attack_target *t, uint64_t until_ms, const char *said, void (*begin)(void))
{
    const struct rlimit no_core = { 0, 0 };
    const uint64_t first = now->next;
    bytes room = { 0 };
    const char *why;
    int fd = open(said, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644), null = open("/dev/null", O_WRONLY);

    setrlimit(RLIMIT_CORE, &no_core);
    dup2(null, 1);
    dup2(fd, 2);
    if (begin)
        begin();
    do { /* at least one, however busy the machine is */
        now->began_ms = ms_of(CLOCK_PROCESS_CPUTIME_ID);
        if (!run_case(t, now->next, &room, &why)) {
            fprintf(stderr, "wrong: %s\n", why);
            _exit(99);
        }
        now->next++;
        if (now->next % 256 == 0 && ftruncate(fd, 0)) /* libraries complain */
            break;
    } while (ms() < until_ms && (!t->in_child || now->next < first + (uint64_t)t->in_child));
    now->over = true;
    bytes_free(&room);
    exit(0);
}

/* How the child ended: NULL, well; else what happened. */
static const char *wait_for(pid_t pid, int hang_s)
{
    static char text[64];
    uint64_t quiet = ms(), next = now->next; /* since when nothing was done: who sleeps takes no time */
    clockid_t clock;
    int status;

    if (clock_getcpuclockid(pid, &clock))
        return "there is no clock";
    while (!waitpid(pid, &status, WNOHANG)) {
        if (next != now->next) {
            quiet = ms();
            next = now->next;
        }
        if (ms_of(clock) > now->began_ms + (uint64_t)hang_s * 1000 || ms() > quiet + (uint64_t)hang_s * 30000) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            return "hangs";
        }
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    }
    if (WIFEXITED(status) && !WEXITSTATUS(status))
        return NULL;
    if (WIFSIGNALED(status))
        snprintf(text, sizeof text, "signal %d", WTERMSIG(status));
    else
        snprintf(text, sizeof text, "exit status %d", WEXITSTATUS(status));
    return text;
}

typedef struct tally {
    uint64_t next, failures;
} tally;

static void read_state(tally *s, const char *path)
{
    FILE *f = fopen(path, "r");

    *s = (tally){ 0, 0 };
    if (f && fscanf(f, "%" SCNu64 " %" SCNu64, &s->next, &s->failures) != 2)
        *s = (tally){ 0, 0 };
    if (f)
        fclose(f);
}

static void write_state(const tally *s, const char *path)
{
    char beside[1100];
    FILE *f;

    snprintf(beside, sizeof beside, "%s.new", path);
    f = fopen(beside, "w");
    if (!f || fprintf(f, "%" PRIu64 " %" PRIu64 "\n", s->next, s->failures) < 0 || fclose(f) || rename(beside, path)) {
        fprintf(stderr, "%s cannot be written: %s\n", path, strerror(errno));
        exit(2);
    }
}

/* A case's bytes into a file, by a child: generators load what begin() loads, and may break. */
static void save_case(const attack_target *t, uint64_t seed, const char *path, void (*begin)(void))
{
    pid_t pid = fork();

    if (!pid) {
        bytes b = { 0 };
        rnd r = rnd_of(t, seed);

        if (begin)
            begin();
        t->make(&b, &r);
        _exit(!bytes_save(&b, path));
    }
    waitpid(pid, NULL, 0);
}

static void keep(const attack_target *t, uint64_t seed, const char *dir, const char *said, const char *what,
                 void (*begin)(void))
{
    char path[1100];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s-%" PRIu64, dir, t->name, seed);
    if (t->make)
        save_case(t, seed, path, begin);
    strcat(path, ".txt");
    rename(said, path);
    if ((f = fopen(path, "a"))) {
        fprintf(f, "%s, case %" PRIu64 ": %s\n", t->name, seed, what);
        fclose(f);
    }
    printf("not ok %s: case %" PRIu64 ": %s; see %s\n", t->name, seed, what, path);
    fflush(stdout);
}

/* Failures of this call. */
static int attack(const attack_target *t, const char *dir, uint64_t part_ms, void (*begin)(void), uint64_t *cases)
{
    const uint64_t until = ms() + part_ms;
    char path[1024], said[1024];
    int failures = 0;
    tally s;

    snprintf(path, sizeof path, "%s/%s.state", dir, t->name);
    snprintf(said, sizeof said, "%s/%s.said", dir, t->name);
    read_state(&s, path);
    *cases = s.next;
    while (ms() < until && failures < MOST_FAILURES) {
        const char *what;
        pid_t pid;

        *now = (shared){ .next = s.next, .began_ms = UINT32_MAX };
        fflush(NULL);
        pid = fork();
        if (pid < 0)
            exit(2);
        if (!pid)
            child(t, ms() + SLICE_MS < until ? ms() + SLICE_MS : until, said, begin);
        what = wait_for(pid, t->hang_s ? t->hang_s : HANG_S);
        s.next = now->next;
        if (what) {
            keep(t, s.next, dir, said, what, begin);
            failures++;
            s.failures++;
            s.next += !now->over;
        }
        write_state(&s, path);
    }
    unlink(said);
    *cases = s.next - *cases;
    printf("%-22s %12" PRIu64 " cases, %9" PRIu64 " now, %6.0f a second, %" PRIu64 " failures, %d now\n", t->name,
           s.next, *cases, (double)*cases * 1000 / (double)(part_ms + !part_ms), s.failures, failures);
    if (!failures && *cases)
        printf("ok %s\n", t->name);
    fflush(stdout);
    return failures;
}

static const attack_target *named(const attack_target *list, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(list[i].name, name))
            return &list[i];
    fprintf(stderr, "no target '%s'; there are:", name);
    for (int i = 0; i < n; i++)
        fprintf(stderr, " %s", list[i].name);
    fprintf(stderr, "\n");
    exit(2);
}

static int once(const attack_target *t, bool file, const char *arg, void (*begin)(void))
{
    const uint64_t seed = file ? 0 : strtoull(arg, NULL, 10);
    bytes b = { 0 };
    rnd r = rnd_of(t, seed);
    const char *why = "";
    bool ok;

    if (begin)
        begin();
    if (file && !bytes_load(&b, arg)) {
        fprintf(stderr, "%s cannot be read\n", arg);
        return 2;
    }
    ok = file ? run_bytes(t, &b, &r, &why) : run_case(t, seed, &b, &why);
    bytes_free(&b);
    if (*folder)
        empty_folder(folder);
    printf("%s%s\n", ok ? "good" : "wrong: ", ok ? "" : why);
    return !ok;
}

int attack_main(int argc, char **argv, const attack_target *list, int n, void (*begin)(void))
{
    int passed = 0, failed = 0, chosen = argc > 3 ? argc - 3 : n;
    double seconds;

    if (argc == 4 && (!strcmp(argv[1], "--case") || !strcmp(argv[1], "--file")))
        return once(named(list, n, argv[2]), argv[1][2] == 'f', argv[3], begin);
    if (argc < 3 || (seconds = atof(argv[2])) <= 0) {
        fprintf(stderr, "usage: %s FOLDER SECONDS [TARGET...] | --case TARGET SEED | --file TARGET FILE\n", argv[0]);
        return 2;
    }
    mkdir(argv[1], 0755);
    now = mmap(NULL, sizeof *now, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (now == MAP_FAILED)
        return 2;
    attack_folder(); /* one for all children: they may not live to delete theirs */
    for (int i = 0; i < chosen; i++) {
        const attack_target *t = argc > 3 ? named(list, n, argv[3 + i]) : &list[i];
        uint64_t cases;
        int bad = attack(t, argv[1], (uint64_t)(seconds * 1000 / chosen), begin, &cases);

        if (!bad && !cases)
            printf("not ok %s: no case was run\n", t->name);
        passed += !bad && cases;
        failed += bad || !cases;
    }
    empty_folder(folder);
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed > 0;
}
