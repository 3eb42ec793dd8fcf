/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph in memory: nodes, and what they need.
 */
#include "store/import/chakra/chakra_private.h"
#include "store/import/input/list.h"

struct chakra_node *chakra_node_add(struct chakra *chakra)
{
    if (imp_list_room((void **)&chakra->node, &chakra->room, chakra->count, sizeof *chakra->node))
        return NULL;
    struct chakra_node *node = &chakra->node[chakra->count++];
    *node = (struct chakra_node){.id = STORE_ABSENT,
                                 .start = STORE_ABSENT,
                                 .dur = STORE_ABSENT,
                                 .type = CHAKRA_WORK,
                                 .collective = STORE_ABSENT,
                                 .bytes = STORE_ABSENT,
                                 .flops = STORE_ABSENT,
                                 .stream = STORE_ABSENT,
                                 .first_need = chakra->need_count};
    return node;
}

int chakra_need_add(struct chakra *chakra, int64_t id)
{
    int rc = imp_list_room((void **)&chakra->need, &chakra->need_room, chakra->need_count,
                           sizeof *chakra->need);
    if (!rc)
        chakra->need[chakra->need_count++] = id;
    return rc;
}

enum chakra_lane chakra_lane_of(const struct chakra_node *node)
{
    if (node->host || node->type >= CHAKRA_STORAGE)
        return CHAKRA_HOST;
    if (node->type >= CHAKRA_SEND && node->type <= CHAKRA_COLLECTIVE)
        return CHAKRA_COMMUNICATION;
    return node->type == CHAKRA_LOAD || node->type == CHAKRA_STORE ? CHAKRA_MEMORY : CHAKRA_COMPUTE;
}
