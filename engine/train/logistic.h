/* SPDX-License-Identifier: MIT */
/* logistic.h - logistic regression with an L2 penalty, and how well a score separates two sets. */
#ifndef ZN_LOGISTIC_H
#define ZN_LOGISTIC_H

#include "../core/status.h"

/* w [d], *bias = the minimum of
 *     sum_i c_i log(1 + exp(-y_i (w.x_i + bias))) + penalty/2 |w|^2
 * over the rows i of x [n][d] with use[i] (NULL: all), y_i = 1 where yes[i], else -1; the c_i of each side add up to 1/2.
 * By Newton's method.  ZN_E_USAGE: one side is empty; ZN_E_MEMORY. */
zn_status zn_logistic_fit(double *w, double *bias, const double *x, const bool *yes, const bool *use, int n, int d,
                          double penalty, zn_error *err);

/* Points [n][n] with the same inner products as the rows of x [n][d]: what a fit with a penalty sees of few rows in many
 * dimensions.  Coordinate k of row i is 0 for k > i. */
void zn_logistic_embed(double *points, const double *x, int n, int d);
/* w [d] = the combination of the rows of x whose inner product with row i is v.points[i].  False: no memory. */
bool zn_logistic_expand(double *w, const double *v, const double *points, const double *x, int n, int d);

/* The share of pairs (yes, no) that the score puts in the right order; ties count half. */
double zn_auroc(const double *score, const bool *yes, int n);
/* Its standard error (Hanley and McNeil 1982).  Where all pairs are right, as if half a pair was wrong. */
double zn_auroc_error(double auroc, int n_yes, int n_no);

/* The score of each row by a fit to the other parts: each side is cut into `parts` runs of neighbours, so that pictures of
 * one series stay in one part. */
zn_status zn_logistic_cross(double *score, const double *x, const bool *yes, int n, int d, double penalty, int parts,
                            zn_error *err);

#endif
