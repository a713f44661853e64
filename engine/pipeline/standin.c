/* SPDX-License-Identifier: MIT */
/* standin.c - the CPU in place of an engine that failed. */
#include "request.h"

#include "engines.h"

#include <stdio.h>
#include <string.h>

/* The request on the best CPU engine, in float32; the GPU said `why`. */
static zn_status run_stand_in(zn_model *m, const zn_request *q, const char *why, zn_error *err)
{
    const char *set[ZN_MAX_SETTINGS + 1];
    zn_job job = q->job ? *q->job : (zn_job){ 0 };
    zn_request again = *q;
    zn_status s;

    if (!m->cpu && (s = zn_engine_open_cpu(&m->cpu, err)))
        return s;
    if (!m->stand_in &&
        (s = zn_model_load(&m->stand_in, m->cpu, m->arch, (const char *const *)m->files, m->n_files, err)))
        return s;
    again.job = &job;
    job.set = set;
    job.n_set = 0;
    for (int i = 0; q->job && i < q->job->n_set && job.n_set <= ZN_MAX_SETTINGS; i++)
        if (strncmp(q->job->set[i], "precision=", 10))
            set[job.n_set++] = q->job->set[i];
    s = zn_request_run_on(m->stand_in, &again, err);
    if (!s)
        snprintf(m->note, sizeof m->note, "%.180s; done with the %s engine instead", why, m->cpu->be->name);
    return s;
}

zn_status zn_request_run(zn_model *m, const zn_request *q, zn_error *err)
{
    zn_error why = { "" };
    zn_status s;

    m->note[0] = 0;
    s = zn_request_run_on(m, q, err ? err : &why);
    if ((s != ZN_E_DEVICE && s != ZN_E_MEMORY) || !m->engine->be->remote)
        return s;
    if (err)
        why = *err;
    return run_stand_in(m, q, why.text, err);
}
