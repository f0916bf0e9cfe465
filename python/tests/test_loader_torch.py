"""Loaders under PyTorch: layouts, worker processes, states, ranks, Lightning, scvi-tools' dictionaries."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import celltile

torch = pytest.importorskip("torch")

from celltile.torch import CellLoader, DataLoader, densify  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module")
def ds(dataset: Path) -> celltile.Dataset:
    return celltile.open(dataset, threads=2)


def cells(loader: Any) -> list[list[int]]:
    return [batch.cells.tolist() for batch in loader]


def make(ds: celltile.Dataset, **options: Any) -> CellLoader:
    return CellLoader(ds, **{"batch_size": 100, "seed": 4, "buffer": 300, **options})


def test_layouts_agree(ds: celltile.Dataset) -> None:
    expected = next(iter(ds.loader(50, layout="csr"))).X.toarray()
    assert np.array_equal(next(iter(ds.loader(50, layout="numpy"))).X, expected)
    dense = next(iter(ds.loader(50, layout="torch"))).X
    assert dense.dtype == torch.float32 and np.array_equal(dense.numpy(), expected)
    sparse = next(iter(ds.loader(50, layout="torch_csr"))).X
    assert sparse.layout == torch.sparse_csr
    assert np.array_equal(densify(sparse).numpy(), expected)
    assert np.array_equal(densify(next(iter(ds.loader(50))).X).numpy(), expected)
    assert sparse.values().data_ptr() != 0


def test_tensors_share_the_batch_s_memory(ds: celltile.Dataset) -> None:
    loader = ds.loader(50, layout="torch_csr")
    kept = [batch.X for batch in loader]
    counts = ds.csr()
    for X, batch in zip(kept, ds.loader(50), strict=True):
        assert np.array_equal(X.to_dense().numpy(), counts[batch.cells].toarray())


def test_jax(ds: celltile.Dataset) -> None:
    pytest.importorskip("jax")
    expected = next(iter(ds.loader(50))).X.toarray()
    assert np.array_equal(np.asarray(next(iter(ds.loader(50, layout="jax"))).X), expected)


def test_pinned_memory_needs_a_device(ds: celltile.Dataset) -> None:
    loader = ds.loader(50, layout="torch", pin_memory=True)
    if torch.cuda.is_available():
        assert next(iter(loader)).X.is_pinned()
    else:
        with pytest.raises(celltile.ArgumentError, match="pin_memory"):
            next(iter(loader))


@pytest.mark.parametrize("context", ["fork", "spawn"])
@pytest.mark.parametrize("shuffle", ["chunks", "cells"])
def test_workers_split_an_epoch_without_repeats(ds: celltile.Dataset, context: str, shuffle: str) -> None:
    if context not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {context} here")
    loader = DataLoader(make(ds, shuffle=shuffle), num_workers=2, multiprocessing_context=context)
    first, second = cells(loader), cells(loader)
    for epoch in (first, second):
        assert sorted(np.concatenate(epoch)) == list(range(1500))
    assert first != second


def test_plain_data_loaders_work_too(ds: celltile.Dataset) -> None:
    for workers in (0, 2):
        loader = torch.utils.data.DataLoader(make(ds), batch_size=None, num_workers=workers)
        assert sorted(np.concatenate(cells(loader))) == list(range(1500))


@pytest.mark.parametrize(("before", "after"), [(0, 0), (0, 2), (2, 0), (2, 2), (2, 3), (3, 1)])
def test_the_parent_s_count_is_what_was_handed_out(ds: celltile.Dataset, before: int, after: int) -> None:
    for steps in (1, 4, 7):
        loader = DataLoader(make(ds), num_workers=before)
        batches = iter(loader)
        taken = [next(batches).cells for _ in range(steps)]
        state = loader.state_dict()
        del batches
        other = DataLoader(make(ds), num_workers=after)
        other.load_state_dict(state)
        rest = cells(other)
        assert sorted(np.concatenate([*taken, *rest])) == list(range(1500))
        assert other.state_dict()["epoch"] == 1
        if before == after:
            loader = DataLoader(make(ds), num_workers=before)
            assert rest == cells(loader)[steps:]


def test_stateful_data_loader(ds: celltile.Dataset) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    for workers in (0, 2):
        whole = cells(stateful(make(ds), batch_size=None, num_workers=workers))
        for steps in (1, 2, 5):
            loader = stateful(make(ds), batch_size=None, num_workers=workers)
            batches = iter(loader)
            for _ in range(steps):
                next(batches)
            state = loader.state_dict()
            del batches
            other = stateful(make(ds), batch_size=None, num_workers=workers)
            other.load_state_dict(state)
            assert cells(other) == whole[steps:], (workers, steps)


def _rank(rank: int, world: int, path: str, address: str, queue: Any) -> None:
    torch.distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=world)
    ds = celltile.open(path, threads=1)
    loader = DataLoader(make(ds, layout="torch"), num_workers=rank)
    queue.put((rank, [batch.cells.tolist() for batch in loader]))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def test_ranks_of_torch_distributed(dataset: Path, tmp_path: Path) -> None:
    if not torch.distributed.is_available():
        pytest.skip("no torch.distributed here")
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    address = f"file://{tmp_path}/meet"
    ranks = [context.Process(target=_rank, args=(rank, 2, str(dataset), address, queue)) for rank in range(2)]
    for process in ranks:
        process.start()
    found = dict(queue.get(timeout=120) for _ in ranks)
    for process in ranks:
        process.join(60)
        assert process.exitcode == 0
    assert len(found[0]) == len(found[1]) == 8
    assert sorted(np.concatenate(found[0] + found[1])) == list(range(1500))


def test_a_model_learns_as_from_a_shuffle_in_memory_and_not_without(ds: celltile.Dataset) -> None:
    obs = ds.obs(["donor"])
    labels = torch.from_numpy(obs["donor"].cat.codes.to_numpy().astype(np.int64))
    counts = torch.from_numpy(np.log1p(ds.csr(dtype="float32").toarray()))
    n_classes = len(obs["donor"].cat.categories)

    def train(orders: list[list[np.ndarray]]) -> float:
        torch.manual_seed(0)
        model = torch.nn.Linear(ds.n_genes, n_classes)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
        for epoch in orders:
            for rows in epoch:
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(model(counts[rows]), labels[rows]).backward()
                optimiser.step()
        with torch.no_grad():
            return float(torch.nn.functional.cross_entropy(model(counts), labels))

    n_epochs, size = 8, 50
    loader = ds.loader(size, seed=1, buffer=600)
    shuffled = train([[batch.cells for batch in loader] for _ in range(n_epochs)])
    rng = np.random.default_rng(1)
    memory = [np.array_split(rng.permutation(1500), 30) for _ in range(n_epochs)]
    reference = train(memory)
    # Cells stand donor by donor.
    unshuffled = ds.loader(size, shuffle=False)
    in_order = train([[batch.cells for batch in unshuffled] for _ in range(n_epochs)])
    assert abs(shuffled - reference) < 0.1 * reference
    assert in_order > 1.5 * reference


def test_lightning(ds: celltile.Dataset, tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning.pytorch")
    from celltile.lightning import CellDataModule  # noqa: PLC0415

    seen: list[int] = []

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(ds.n_genes, 1)

        def training_step(self, batch: Any, _: int) -> Any:
            seen.extend(batch.cells.tolist())
            return self.layer(batch.X).square().mean()

        def validation_step(self, batch: Any, _: int) -> None:
            assert len(batch) > 0

        def transfer_batch_to_device(self, batch: Any, *_: Any) -> Any:
            return batch

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=1e-6)

    train, val = ds.split(fractions=(0.8, 0.2))
    module = CellDataModule(ds, 100, train=train, val=val, buffer=300)
    trainer = lightning.Trainer(
        max_epochs=2,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        accelerator="cpu",
        use_distributed_sampler=False,
        default_root_dir=tmp_path,
    )
    trainer.fit(Model(), datamodule=module)
    assert sorted(seen) == sorted([*train, *train])
    assert module.state_dict()["epoch"] == 2


def test_scvi_dictionaries(ds: celltile.Dataset) -> None:
    from celltile.scvi import SCVIDataModule  # noqa: PLC0415

    module = SCVIDataModule(ds, 100, batch_key="batch", labels_key="cell_type", genes=np.arange(50))
    assert (module.n_vars, module.n_obs) == (50, 1500)
    counts, obs = ds.csr()[:, :50], ds.obs(["batch", "cell_type"])
    assert module.n_batch == len(obs["batch"].cat.categories)
    expected = iter(make(ds, batch_size=100, seed=0, buffer=None))
    for batch in module.train_dataloader():
        assert set(batch) == {"X", "batch", "labels"}
        rows = next(expected).cells
        assert batch["X"].dtype == torch.float32 and np.array_equal(
            batch["X"].numpy(), counts[rows].toarray()
        )
        for key, column in (("batch", "batch"), ("labels", "cell_type")):
            assert batch[key].dtype == torch.int64 and batch[key].shape == (len(rows), 1)
            assert np.array_equal(batch[key].numpy()[:, 0], obs[column].cat.codes.to_numpy()[rows])


def test_scvi_trains_for_an_epoch(ds: celltile.Dataset) -> None:
    scvi = pytest.importorskip("scvi")
    from celltile.scvi import SCVIDataModule  # noqa: PLC0415

    module = SCVIDataModule(ds, 128, batch_key="batch", labels_key="cell_type")
    model = scvi.model.SCVI(registry=module.registry)
    model.train(max_epochs=1, datamodule=module, accelerator="cpu", logger=False, enable_progress_bar=False)
    latent = model.get_latent_representation(dataloader=module.inference_dataloader())
    assert latent.shape[0] == 1500 and np.isfinite(latent).all()
