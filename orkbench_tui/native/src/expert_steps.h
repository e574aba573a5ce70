/* A feed-forward of experts: which rows go where, their products, and the results put together. */
#ifndef ORK_EXPERT_STEPS_H
#define ORK_EXPERT_STEPS_H

#include "dispatch.h"

#define ORK_EXPERTS_MAX 4096

void ork_route(const ork_kernels *kernels, const ork_route_step *step, int row);
void ork_group(const ork_group_step *step, int rows);
void ork_gather(const ork_gather_step *step, int row);
/* One strip of 32 outputs of one expert, for all its slots. */
void ork_expert_strip(const ork_kernels *kernels, const ork_experts_step *step, int unit);
void ork_nibble_expert_strip(const ork_kernels *kernels, const ork_nibble_experts_step *step, int unit);
void ork_combine(const ork_combine_step *step, int row);

#endif
