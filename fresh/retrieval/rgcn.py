"""The relational graph convolution, and the index work it needs of a graph.

The layer is written here, and not taken from PyTorch Geometric, for two reasons. Its ``RGCNConv(aggr="mean")``
averages over *all* in-neighbours, whatever their relation, where pyg-lib's ``segment_matmul`` path is active, so the
same weights score differently on another machine. And on CPUs a sparse product with the transpose at hand is more
than twice as fast, forward and backward (``benchmarks/bench_rgcn.py``).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from graph_schema.errors import SchemaError


class RelationalPlan:
    """Which node gets which message: everything about a graph that the layers share, and none of the features.

    A *pair* is a relation and a node that has at least one in-neighbour by it. Edges are first averaged into pairs,
    each relation's pairs go through its weights, and pairs are then summed into their nodes. Pairs are numbered by
    relation, so that each relation's are one block.

    Build it once for a graph, or for a batch of graphs laid side by side, and hand it to every layer and every
    step. An edge that stands twice counts twice. It may have no edges, or no nodes.

    Attributes:
        num_nodes: N.
        num_relations: R.
        source: Source node of each edge, ``[E]``.
        pair: Pair that each edge is averaged into, ``[E]``.
        target: Node that each pair is summed into, ``[P]``.
        count: Edges in each pair, ``[P]``.
        sizes: Pairs of each relation; R numbers.
    """

    def __init__(
        self,
        num_nodes: int,
        num_relations: int,
        source: Tensor,
        pair: Tensor,
        target: Tensor,
        count: Tensor,
        sizes: list[int],
    ) -> None:
        """Takes the parts as they are; use :meth:`build`."""
        self.num_nodes = num_nodes
        self.num_relations = num_relations
        self.source = source
        self.pair = pair
        self.target = target
        self.count = count
        self.sizes = sizes
        self._products: dict[torch.dtype, _Products] = {}

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(nodes={self.num_nodes}, edges={self.num_edges}, "
            f"relations={self.num_relations}, device={self.device})"
        )

    @classmethod
    def build(cls, edge_index: Tensor, edge_type: Tensor, num_nodes: int, num_relations: int) -> RelationalPlan:
        """Plans a graph, in time linear in E + N * R.

        Args:
            edge_index: Source and target of each edge, ``[2, E]``, integers from 0 to N - 1.
            edge_type: Relation of each edge, ``[E]``, integers from 0 to R - 1.
            num_nodes: N.
            num_relations: R, at least 1.

        Raises:
            SchemaError: A shape is wrong, or an edge names a node or a relation that is not there.
        """
        edge_index, edge_type = edge_index.long(), edge_type.long()
        _check_edges(edge_index, edge_type, num_nodes, num_relations)
        source, target = edge_index
        slot = edge_type * num_nodes + target
        filled = torch.bincount(slot, minlength=num_nodes * num_relations)
        slots = filled.nonzero().squeeze(1)
        number = (filled > 0).cumsum(0) - 1  # of the pair in each filled slot
        per_relation = torch.bincount(slots // max(num_nodes, 1), minlength=num_relations)
        return cls(
            num_nodes,
            num_relations,
            source=source.contiguous(),
            pair=number[slot],
            target=slots % max(num_nodes, 1),
            count=filled[slots],
            sizes=per_relation.tolist(),
        )

    @property
    def num_edges(self) -> int:
        """E."""
        return self.source.numel()

    @property
    def device(self) -> torch.device:
        """Where the indices lie."""
        return self.source.device

    def to(self, device: torch.device | str) -> RelationalPlan:
        """The same plan on another device; itself when it is there already."""
        if torch.device(device) == self.device:
            return self
        return self._map(lambda indices: indices.to(device))

    def pin_memory(self) -> RelationalPlan:
        """The same plan in page-locked memory, as a DataLoader with ``pin_memory=True`` asks."""
        return self._map(Tensor.pin_memory)

    def _map(self, move: Callable[[Tensor], Tensor]) -> RelationalPlan:
        return RelationalPlan(
            self.num_nodes,
            self.num_relations,
            source=move(self.source),
            pair=move(self.pair),
            target=move(self.target),
            count=move(self.count),
            sizes=self.sizes,
        )

    def __getstate__(self) -> dict[str, Any]:
        # Worker processes send plans to the trainer: the matrices are quicker made again than sent.
        return self.__dict__ | {"_products": {}}

    def products(self, dtype: torch.dtype) -> _Products:
        """The plan as sparse matrices on the CPU, made on first use and kept."""
        if dtype not in self._products:
            self._products[dtype] = _Products(self, dtype)
        return self._products[dtype]


class _Products:
    """Averaging and summing as CSR matrices, with the transpose the backward pass needs.

    PyTorch's own backward of a CSR product transposes the matrix at every call.
    """

    def __init__(self, plan: RelationalPlan, dtype: torch.dtype) -> None:
        pair, source, target = plan.pair.numpy(), plan.source.numpy(), plan.target.numpy()
        pairs, nodes = len(target), plan.num_nodes
        share = 1.0 / plan.count.numpy()
        mean = sparse.coo_array((share[pair], (pair, source)), shape=(pairs, nodes)).tocsr()
        total = sparse.coo_array((np.ones(pairs), (target, np.arange(pairs))), shape=(nodes, pairs)).tocsr()
        self.mean = _to_torch(mean, dtype)  # [P, N]
        self.mean_transposed = _to_torch(mean.T.tocsr(), dtype)  # [N, P]
        self.total = _to_torch(total, dtype)  # [N, P]


class RGCNLayer(nn.Module):
    r"""One relational graph convolution, without the nonlinearity.

    .. math::
        \mathbf{h}^{\prime}_v = \mathbf{W}_0 \mathbf{h}_v + \mathbf{b} + \sum_{r=1}^{R}
        \frac{1}{|\mathcal{N}_r(v)|} \sum_{u \in \mathcal{N}_r(v)} \mathbf{W}_r \mathbf{h}_u

    where :math:`\mathcal{N}_r(v)` are the sources of the edges of relation :math:`r` into :math:`v`. A relation
    without an edge into :math:`v` adds nothing.

    Source: Schlichtkrull et al., "Modeling Relational Data with Graph Convolutional Networks" (arXiv 1703.06103),
    equation 2 with :math:`c_{v,r} = |\mathcal{N}_r(v)|`; the sigma around it is the caller's.

    Args:
        in_dim: Width of a node's features.
        out_dim: Width of the result.
        num_relations: R, at least 1.

    **Shapes:**
        - **input:** node features :math:`(N, D_{in})` and the graph's :class:`RelationalPlan`
        - **output:** node features :math:`(N, D_{out})`
        - **parameters:** ``weight`` :math:`(R, D_{in}, D_{out})`, ``root`` :math:`(D_{in}, D_{out})`,
          ``bias`` :math:`(D_{out})`; the names and shapes of PyTorch Geometric's ``RGCNConv``
    """

    def __init__(self, in_dim: int, out_dim: int, num_relations: int) -> None:
        super().__init__()
        self.in_dim = in_dim
        self.out_dim = out_dim
        self.num_relations = num_relations
        self.weight = nn.Parameter(torch.empty(num_relations, in_dim, out_dim))
        self.root = nn.Parameter(torch.empty(in_dim, out_dim))
        self.bias = nn.Parameter(torch.empty(out_dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the weights anew (Glorot, each relation's matrix by its own size) and zeroes the bias."""
        bound = math.sqrt(6 / (self.in_dim + self.out_dim))
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.root, -bound, bound)
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor, plan: RelationalPlan) -> Tensor:
        """Convolves once.

        Args:
            x: Node features, ``[N, in_dim]``.
            plan: The graph, on the same device.

        Returns:
            ``[N, out_dim]``.

        Raises:
            SchemaError: The features or the layer do not fit the plan.
        """
        if x.shape != (plan.num_nodes, self.in_dim) or plan.num_relations != self.num_relations:
            raise SchemaError(
                f"{self} got features {tuple(x.shape)} and a graph of {plan.num_nodes} nodes and "
                f"{plan.num_relations} relations: the checkpoint was made for another graph"
            )
        own = torch.addmm(self.bias, x, self.root)
        if x.device.type == "cpu":
            return _SparseSum.apply(own, x, self.weight, plan)
        return _indexed_sum(own, x, self.weight, plan)

    def extra_repr(self) -> str:
        """``in_dim, out_dim, num_relations``."""
        return f"{self.in_dim}, {self.out_dim}, num_relations={self.num_relations}"


class _SparseSum(torch.autograd.Function):
    """Adds every relation's averaged messages to ``own``, by sparse products on the CPU.

    One function from features to result, so that no relation's block is copied: each product writes its own part.
    CSR products know float32 and float64 alone, so autocast is off inside.
    """

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx: Any, own: Tensor, x: Tensor, weight: Tensor, plan: RelationalPlan) -> Tensor:
        products = plan.products(x.dtype)
        mean = products.mean @ x
        message = mean.new_empty(len(mean), weight.shape[2])
        for r, (block, out) in enumerate(zip(mean.split(plan.sizes), message.split(plan.sizes), strict=True)):
            torch.mm(block, weight[r], out=out)
        ctx.save_for_backward(mean, weight)
        ctx.plan = plan
        return torch.addmm(own, products.total, message)

    @staticmethod
    @once_differentiable
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:  # type: ignore[override]
        mean, weight = ctx.saved_tensors
        plan: RelationalPlan = ctx.plan
        grad_message = grad.index_select(0, plan.target)
        grad_mean, grad_weight = torch.empty_like(mean), torch.empty_like(weight)
        blocks = (t.split(plan.sizes) for t in (mean, grad_message, grad_mean))
        for r, (block, grad_block, out) in enumerate(zip(*blocks, strict=True)):
            torch.mm(block.t(), grad_block, out=grad_weight[r])
            torch.mm(grad_block, weight[r].t(), out=out)
        return grad, plan.products(mean.dtype).mean_transposed @ grad_mean, grad_weight, None


def _indexed_sum(own: Tensor, x: Tensor, weight: Tensor, plan: RelationalPlan) -> Tensor:
    """The same by indexed sums, on any device and by ordinary autograd."""
    share = plan.count.to(x.dtype).reciprocal().index_select(0, plan.pair)
    edges = x.index_select(0, plan.source) * share.unsqueeze(1)
    mean = x.new_zeros(plan.target.numel(), x.shape[1]).index_add(0, plan.pair, edges)
    message = torch.cat([block @ weight[r] for r, block in enumerate(mean.split(plan.sizes))])
    return own.index_add(0, plan.target, message.to(own.dtype))


def _check_edges(edge_index: Tensor, edge_type: Tensor, num_nodes: int, num_relations: int) -> None:
    if edge_index.dim() != 2 or edge_index.shape[0] != 2 or edge_type.shape != edge_index.shape[1:]:
        raise SchemaError(
            f"edges must be [2, E] with E relations, got {tuple(edge_index.shape)} and {tuple(edge_type.shape)}"
        )
    if num_relations < 1:
        raise SchemaError(f"a relational graph needs at least one relation, got {num_relations}")
    if edge_type.numel() == 0:
        return
    for what, values, bound in (("node", edge_index, num_nodes), ("relation", edge_type, num_relations)):
        low, high = int(values.min()), int(values.max())
        if low < 0 or high >= bound:
            raise SchemaError(f"an edge names {what} {low if low < 0 else high}, but there are {bound}")


def _to_torch(matrix: sparse.csr_array, dtype: torch.dtype) -> Tensor:
    with warnings.catch_warnings():
        # "Sparse CSR tensor support is in beta state"; what is used of it here is held to a reference by the tests.
        warnings.filterwarnings("ignore", message=".*[Ss]parse.*", category=UserWarning)
        # scipy's 32-bit indices are also the quicker ones: 42 ms against 48 ms, forward and backward.
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr),
            torch.from_numpy(matrix.indices),
            torch.from_numpy(matrix.data).to(dtype),
            size=matrix.shape,
            check_invariants=False,
        )
