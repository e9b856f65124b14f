"""FSDP2 on CPUs with its communication beside its computation, through the hooks that it offers.

Without them FSDP2 waits for each all-gather and reduce-scatter as soon as it has called it (on GPUs only a stream
waits): never are two in flight, so a plan could neither reorder nor overlap anything. Written for FSDP2 of torch 2.15.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch.autograd import Variable
from torch.distributed.fsdp import FSDPModule


def overlap(model: FSDPModule) -> None:
    """Let the modules of a model, after `fully_shard`, gather parameters one module ahead, and reduce gradients while
    the backward pass goes on.
    """
    sharded = [module for module in model.modules() if isinstance(module, FSDPModule)]
    for module in sharded:
        groups = module._get_fsdp_state()._fsdp_param_groups
        if len(groups) == 1:
            module.set_custom_all_gather(_AllGather())
            module.set_custom_reduce_scatter(_ReduceScatter(groups[0]))
    # Backward, FSDP2 prefetches by itself. The root gathers its own parameters first.
    for module, following in pairwise(sharded):
        module.set_modules_to_forward_prefetch([following])


class _Allocating:
    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Any:
        return torch.empty(*size, dtype=dtype, device=device)


class _AllGather(_Allocating):
    """FSDP2 waits for what it returns before it uses the parameters."""

    def __call__(self, output_tensor: Any, input_tensor: Any, group: Any, async_op: bool = False) -> Any:
        return dist.all_gather_into_tensor(output_tensor, input_tensor, group=group, async_op=True)


class _ReduceScatter(_Allocating):
    """FSDP2 takes the output as complete. Unless it reads it at once, that is true at the end of the backward pass,
    before anybody uses a gradient. `param_group`: FSDP2's group of the parameters.
    """

    def __init__(self, param_group: Any) -> None:
        self._param_group = param_group

    def __call__(self, output_tensor: Any, input_tensor: Any, group: Any, op: Any, async_op: bool = False) -> None:
        work = dist.reduce_scatter_tensor(output_tensor, input_tensor, op=op, group=group, async_op=True)
        if self._is_read_at_once(output_tensor, op):
            work.wait()
        else:
            Variable._execution_engine.queue_callback(work.wait)

    def _is_read_at_once(self, output: Any, op: Any) -> bool:
        """Whether FSDP2 divides, converts, accumulates or reduces the output further, or calls hooks of the user."""
        return (
            output.device.type != "cpu"
            or op != dist.ReduceOp.AVG
            or self._param_group._all_reduce_hook is not None
            or any(
                one.sharded_param.grad is not None
                or one.sharded_param.device_mesh.ndim != 1
                or one.sharded_param._post_accumulate_grad_hooks
                or one.sharded_grad_dtype not in (None, output.dtype)
                for one in self._param_group.fsdp_params
            )
        )
