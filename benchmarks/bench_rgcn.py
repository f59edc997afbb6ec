"""RGCNLayer against PyTorch Geometric's RGCNConv(aggr="mean"), forward and backward, on a batch of subgraphs.

Run: ``python benchmarks/bench_rgcn.py [--graphs 64] [--nodes 200] [--edges 800] [--layers 2] [--rounds 15]``
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import pairwise

import torch
import torch_geometric.backend
from timing import interleaved, milliseconds, print_table, ratio
from torch import Tensor, nn
from torch_geometric.nn import RGCNConv

from fresh.retrieval.rgcn import RelationalPlan, RGCNLayer


def batch(graphs: int, nodes: int, edges: int, relations: int) -> tuple[Tensor, Tensor]:
    shift = torch.arange(graphs).repeat_interleave(edges) * nodes
    return torch.randint(nodes, (2, graphs * edges)) + shift, torch.randint(relations, (graphs * edges,))


def step(layers: nn.ModuleList, x: Tensor, *graph: object) -> Tensor:
    """One training step without the optimiser; leaves the gradients in place and returns the output."""
    layers.zero_grad()
    x.grad = None
    out = x
    for layer in layers:
        out = layer(out, *graph).relu()
    out.square().mean().backward()
    return out.detach()


def gradients(layers: nn.ModuleList, x: Tensor) -> list[Tensor]:
    return [x.grad.clone(), *(p.grad.clone() for _, p in sorted(layers.named_parameters()))]


def largest_difference(mine: list[Tensor], theirs: list[Tensor]) -> float:
    return max(float((a - b).abs().max()) for a, b in zip(mine, theirs, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=64)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--edges", type=int, default=800, help="edges of each graph")
    parser.add_argument("--relations", type=int, default=10)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    o = parser.parse_args()

    torch.manual_seed(0)
    torch_geometric.backend.use_segment_matmul = False  # with it on, RGCNConv's mean is not per relation
    widths = list(pairwise([o.hidden] * (o.layers + 1)))
    theirs = nn.ModuleList(RGCNConv(a, b, o.relations, aggr="mean") for a, b in widths)
    ours = nn.ModuleList(RGCNLayer(a, b, o.relations) for a, b in widths)
    ours.load_state_dict(theirs.state_dict())
    edge_index, edge_type = batch(o.graphs, o.nodes, o.edges, o.relations)
    total = o.graphs * o.nodes
    x = torch.randn(total, o.hidden, requires_grad=True)
    plan = RelationalPlan.build(edge_index, edge_type, total, o.relations)

    out = step(theirs, x, edge_index, edge_type)
    expected = gradients(theirs, x)
    apart = float((step(ours, x, plan) - out).abs().max())
    grads_apart = largest_difference(gradients(ours, x), expected)

    def plan_and_step() -> Tensor:
        return step(ours, x, RelationalPlan.build(edge_index, edge_type, total, o.relations))

    variants: dict[str, Callable[[], object]] = {
        "RGCNConv": lambda: step(theirs, x, edge_index, edge_type),
        "RGCNLayer, plan kept": lambda: step(ours, x, plan),
        "RGCNLayer, plan made anew": plan_and_step,
    }
    seconds = interleaved(variants, o.rounds, warmup=3)
    rows = [
        [name, milliseconds(s), f"{ratio(seconds['RGCNConv'], s):.2f}x", f"{apart:.1e}", f"{grads_apart:.1e}"]
        for name, s in seconds.items()
    ]
    rows[0][3:] = ["", ""]
    print_table(
        f"R-GCN forward and backward: {o.graphs} graphs of {o.nodes} nodes and {o.edges} edges, {o.relations} "
        f"relations, width {o.hidden}, {o.layers} layers, {torch.get_num_threads()} threads",
        ["variant", "time", "speed", "outputs apart", "gradients apart"],
        rows,
        ["torch", "torch-geometric"],
    )


if __name__ == "__main__":
    main()
