from __future__ import annotations

import pickle
import warnings
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from fresh.retrieval.rgcn import RelationalPlan, RGCNLayer, _indexed_sum
from graph_schema.errors import SchemaError

Graph = tuple[Tensor, Tensor, int, int]


def random_graph(seed: int, nodes: int = 23, edges: int = 160, relations: int = 5) -> Graph:
    """Duplicate edges, self loops, isolated nodes, and a relation (the second) without an edge."""
    g = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(0, nodes - 3, (2, edges), generator=g)
    edge_index[:, : edges // 8] = edge_index[:, edges // 8 : 2 * (edges // 8)]
    edge_type = torch.randint(0, relations - 1, (edges,), generator=g)
    edge_type[edge_type >= 1] += 1
    return edge_index, edge_type, nodes, relations


def empty_graph(nodes: int, relations: int = 4) -> Graph:
    return torch.zeros(2, 0, dtype=torch.long), torch.zeros(0, dtype=torch.long), nodes, relations


GRAPHS = {
    "random": random_graph(0),
    "one relation": random_graph(1, relations=2),
    "no edges": empty_graph(6),
    "no nodes": empty_graph(0),
    "one loop": (torch.zeros(2, 1, dtype=torch.long), torch.tensor([2]), 1, 3),
}


def dense_reference(layer: RGCNLayer, x: Tensor, graph: Graph) -> Tensor:
    """The formula, node by node and relation by relation."""
    edge_index, edge_type, nodes, relations = graph
    rows = []
    for v in range(nodes):
        h = x[v] @ layer.root + layer.bias
        for r in range(relations):
            neighbours = [int(u) for u, t, q in zip(*edge_index, edge_type, strict=True) if int(t) == v and int(q) == r]
            if neighbours:
                h = h + torch.stack([x[u] @ layer.weight[r] for u in neighbours]).mean(0)
        rows.append(h)
    return torch.stack(rows) if rows else x.new_zeros(0, layer.out_dim) + 0 * layer.weight.sum()


def make(graph: Graph, dtype: torch.dtype = torch.float64) -> tuple[RGCNLayer, RelationalPlan, Tensor]:
    torch.manual_seed(3)
    layer = RGCNLayer(7, 4, graph[3]).to(dtype)
    torch.nn.init.normal_(layer.bias)
    return layer, RelationalPlan.build(*graph), torch.randn(graph[2], 7, dtype=dtype, requires_grad=True)


def by_index(layer: RGCNLayer, x: Tensor, plan: RelationalPlan) -> Tensor:
    return _indexed_sum(torch.addmm(layer.bias, x, layer.root), x, layer.weight, plan)


@pytest.mark.parametrize("path", [RGCNLayer.forward, by_index], ids=["sparse", "indexed"])
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())
def test_equals_the_formula_with_gradients(graph: Graph, path) -> None:  # type: ignore[no-untyped-def]
    layer, plan, x = make(graph)
    out, expected = path(layer, x, plan), dense_reference(layer, x, graph)
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)
    inputs = [x, *layer.parameters()]
    upstream = torch.randn_like(out)
    got = torch.autograd.grad(out, inputs, upstream)
    want = torch.autograd.grad(expected, inputs, upstream, allow_unused=True)
    for mine, theirs in zip(got, want, strict=True):
        torch.testing.assert_close(mine, torch.zeros_like(mine) if theirs is None else theirs, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())
def test_gradcheck(graph: Graph) -> None:
    layer, plan, x = make(graph)
    names = ("weight", "root", "bias")

    def run(x: Tensor, *parameters: Tensor) -> Tensor:
        return torch.func.functional_call(layer, dict(zip(names, parameters, strict=True)), (x, plan))

    assert torch.autograd.gradcheck(run, (x, *(getattr(layer, n) for n in names)))


def test_every_parameter_gets_a_gradient_without_edges() -> None:
    """Distributed training waits for a gradient of every parameter."""
    layer, plan, x = make(GRAPHS["no edges"])
    layer(x, plan).sum().backward()
    assert layer.weight.grad is not None
    assert not layer.weight.grad.any()


def test_a_batch_of_graphs_is_each_graph_alone() -> None:
    graphs = [random_graph(seed) for seed in (4, 5)]
    layer, _, _ = make(graphs[0])
    xs = [torch.randn(g[2], 7, dtype=torch.float64) for g in graphs]
    edge_index = torch.cat([graphs[0][0], graphs[1][0] + graphs[0][2]], dim=1)
    both = RelationalPlan.build(edge_index, torch.cat([g[1] for g in graphs]), graphs[0][2] + graphs[1][2], 5)
    alone = torch.cat([layer(x, RelationalPlan.build(*g)) for x, g in zip(xs, graphs, strict=True)])
    torch.testing.assert_close(layer(torch.cat(xs), both), alone, rtol=1e-12, atol=1e-12)


def test_edge_order_changes_nothing() -> None:
    edge_index, edge_type, nodes, relations = random_graph(6)
    layer, plan, x = make(random_graph(6))
    order = torch.randperm(len(edge_type))
    shuffled = RelationalPlan.build(edge_index[:, order], edge_type[order], nodes, relations)
    torch.testing.assert_close(layer(x, plan), layer(x, shuffled), rtol=1e-12, atol=1e-12)


def pyg_conv(layer: RGCNLayer) -> torch.nn.Module:
    from torch_geometric.nn import RGCNConv

    conv = RGCNConv(layer.in_dim, layer.out_dim, layer.num_relations, aggr="mean")
    conv.load_state_dict(layer.state_dict())
    return conv


@pytest.mark.parametrize("seed", range(3))
def test_equals_pyg_on_its_correct_path(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch_geometric.backend

    monkeypatch.setattr(torch_geometric.backend, "use_segment_matmul", False)
    graph = random_graph(seed)
    layer, plan, x = make(graph, torch.float32)
    torch.testing.assert_close(layer(x, plan), pyg_conv(layer)(x, *graph[:2]), rtol=1e-5, atol=1e-5)


def test_unmoved_by_pygs_segment_matmul(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyG with pyg-lib loses the mean per relation; pyg-lib is stood in for by the product it documents."""
    import torch_geometric.backend
    import torch_geometric.typing
    from torch_geometric.nn.conv import rgcn_conv

    def segment_matmul(x: Tensor, ptr: Tensor, weight: Tensor) -> Tensor:
        return torch.cat([block @ weight[r] for r, block in enumerate(x.split(ptr.diff().tolist()))])

    graph = random_graph(2)
    layer, plan, x = make(graph, torch.float32)
    before = layer(x, plan)
    stand_in = SimpleNamespace(ops=SimpleNamespace(segment_matmul=segment_matmul))
    monkeypatch.setattr(rgcn_conv, "pyg_lib", stand_in, raising=False)
    monkeypatch.setattr(torch_geometric.typing, "WITH_SEGMM", True)
    monkeypatch.setattr(torch_geometric.backend, "use_segment_matmul", True)
    assert (pyg_conv(layer)(x, *graph[:2]) - before).abs().max() > 0.1
    assert torch.equal(layer(x, plan), before)


def test_autocast_keeps_full_precision_in_the_sums() -> None:
    layer, plan, x = make(GRAPHS["random"], torch.float32)
    exact = layer(x, plan)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = layer(x, plan)
        mixed.sum().backward()
    assert (mixed.float() - exact).abs().max() < 0.1
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()


def test_plan_survives_a_worker_process_and_moves() -> None:
    layer, plan, x = make(GRAPHS["random"])
    before = layer(x, plan)
    assert torch.equal(layer(x, pickle.loads(pickle.dumps(plan))), before)
    assert plan.to("cpu") is plan
    assert plan.to("meta").device.type == "meta"
    assert plan.to("meta").sizes == plan.sizes


def test_no_warning_reaches_the_user() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer, plan, x = make(random_graph(8))
        layer(x, plan).sum().backward()
    assert layer.weight.grad is not None and layer.weight.grad.isfinite().all()


def test_reset_and_text() -> None:
    layer, plan, _ = make(GRAPHS["random"])
    assert str(layer) == "RGCNLayer(7, 4, num_relations=5)"
    assert str(plan) == "RelationalPlan(nodes=23, edges=160, relations=5, device=cpu)"
    old = layer.weight.clone()
    layer.reset_parameters()
    assert not torch.equal(layer.weight, old)
    assert layer.weight.abs().max() <= (6 / 11) ** 0.5
    assert not layer.bias.any()


@pytest.mark.parametrize(
    ("edge_index", "edge_type", "nodes", "relations", "message"),
    [
        (torch.zeros(3, 2), torch.zeros(2), 3, 2, r"\[2, E\]"),
        (torch.zeros(2, 2), torch.zeros(3), 3, 2, r"\[2, E\]"),
        (torch.tensor([[0], [3]]), torch.zeros(1), 3, 2, "node 3"),
        (torch.tensor([[-1], [0]]), torch.zeros(1), 3, 2, "node -1"),
        (torch.zeros(2, 1), torch.tensor([2]), 3, 2, "relation 2"),
        (torch.zeros(2, 0), torch.zeros(0), 3, 0, "at least one relation"),
    ],
)
def test_a_wrong_graph_is_refused(
    edge_index: Tensor, edge_type: Tensor, nodes: int, relations: int, message: str
) -> None:
    with pytest.raises(SchemaError, match=message):
        RelationalPlan.build(edge_index, edge_type, nodes, relations)


def test_a_layer_for_another_graph_is_refused() -> None:
    layer, plan, x = make(GRAPHS["random"])
    with pytest.raises(SchemaError, match="another graph"):
        layer(x[:, :5], plan)
    with pytest.raises(SchemaError, match="another graph"):
        RGCNLayer(7, 4, 9).double()(x, plan)
