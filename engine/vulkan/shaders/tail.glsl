// SPDX-License-Identifier: MIT
// tail.glsl - the tail of an operation, for kernels with the residual at binding 2 and g.gain, g.res_ld in ARGS.
TENSOR(2, res)

// y = post(residual + gain * pre(v)) of channel c of pixel p
float tail(float v, uint p, uint c)
{
    v = g.gain * act(v, PRE);
    if (T2 != ABSENT)
        v += get_res(p * g.res_ld + c);
    return act(v, POST);
}
