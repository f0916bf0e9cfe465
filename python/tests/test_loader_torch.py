"""Loaders under PyTorch: layouts, worker processes, states, ranks, Lightning, scvi-tools' dictionaries."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
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


@pytest.mark.parametrize("workers", [0, 2])
def test_an_older_loop_ends_and_leaves_the_newer_one_alone(ds: celltile.Dataset, workers: int) -> None:
    whole = cells(DataLoader(make(ds), num_workers=workers))
    loader = DataLoader(make(ds), num_workers=workers)
    older, oldest = iter(loader), iter(loader)
    # Begun in another order than made.
    next(oldest)
    assert list(older) == []
    newer = iter(loader)
    found = [next(newer).cells.tolist() for _ in range(2)]
    assert list(oldest) == []
    state = loader.state_dict()
    assert (state["epoch"], state["segments"][0]["steps"]) == (0, 2)
    found.extend(batch.cells.tolist() for batch in newer)
    assert found == whole
    assert loader.state_dict()["epoch"] == 1 and loader.state_dict()["segments"] == []
    # So does one that a state was loaded under.
    running = iter(loader)
    next(running)
    loader.load_state_dict(state)
    assert list(running) == []
    assert cells(loader) == whole[2:]


def test_a_resumed_epoch_has_the_length_of_the_whole(ds: celltile.Dataset) -> None:
    loader = DataLoader(make(ds))
    batches = iter(loader)
    for _ in range(4):
        next(batches)
    for workers in (0, 2, 3):
        other = DataLoader(make(ds), num_workers=workers)
        other.load_state_dict(loader.state_dict())
        length = len(other)
        assert length == 4 + len(cells(other))


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


@pytest.mark.parametrize("workers", [0, 2])
def test_data_loaders_of_others_are_told_the_epoch(ds: celltile.Dataset, workers: int) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    own = DataLoader(make(ds), num_workers=workers)
    epochs = [cells(own), cells(own), cells(own)]
    for kind in (stateful, torch.utils.data.DataLoader):
        loaded = make(ds)
        loader = kind(loaded, batch_size=None, num_workers=workers)
        for number, expected in enumerate(epochs):
            loaded.set_epoch(number)
            assert cells(loader) == expected, (kind, number)
    # The middle of the second epoch, and the one after it.
    loaded = make(ds)
    loaded.set_epoch(1)
    loader = stateful(loaded, batch_size=None, num_workers=workers)
    batches = iter(loader)
    for _ in range(4):
        next(batches)
    state = loader.state_dict()
    del batches
    loaded = make(ds)
    loader = stateful(loaded, batch_size=None, num_workers=workers)
    loader.load_state_dict(state)
    assert cells(loader) == epochs[1][4:]
    loaded.set_epoch(2)
    assert cells(loader) == epochs[2]


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


CLUSTERS = Path(__file__).parents[2] / "docs/clusters.md"


def _train(rank: int, folder: str, dataset: str, epochs: str) -> None:
    """The example of the documentation, on this machine, with a checkpoint every three steps."""
    os.chdir(folder)
    os.environ["LOCAL_RANK"] = str(rank)
    code = CLUSTERS.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    for written, here in (
        ('"nccl"', f'"gloo", init_method="file://{folder}/meet-{epochs}", rank={rank}, world_size=2'),
        ('torch.device("cuda", int(os.environ["LOCAL_RANK"]))', 'torch.device("cpu")'),
        ('"s3://bucket/atlas.ct", cache_dir="/local/nvme", cache_tiles=500 << 30', f"{dataset!r}"),
        ("batch_size=4096", "batch_size=100"),
        ('["epoch"] < 10', f'["epoch"] < {epochs}'),
        ("% 1000", "% 3"),
    ):
        assert written in code, written
        code = code.replace(written, here)
    exec(compile(code, str(CLUSTERS), "exec"), {"make_model": lambda n: torch.nn.Linear(n, 20)})
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


@pytest.mark.skipif(not CLUSTERS.exists(), reason="the documentation is not here")
def test_the_example_of_the_page_on_clusters(dataset: Path, tmp_path: Path) -> None:
    if not torch.distributed.is_available():
        pytest.skip("no torch.distributed here")
    context = multiprocessing.get_context("spawn")
    # The second time from where the first one stopped.
    for epochs, steps in (("1", 6), ("2", 15)):
        ranks = [
            context.Process(target=_train, args=(rank, str(tmp_path), str(dataset), epochs))
            for rank in range(2)
        ]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join(120)
            assert process.exitcode == 0
        # Eight batches an epoch, and a checkpoint after every third.
        assert torch.load(tmp_path / "latest.pt")["step"] == steps


def test_a_model_learns_as_from_a_shuffle_in_memory_and_not_without(ds: celltile.Dataset) -> None:
    obs = ds.obs(["donor"])
    labels = torch.from_numpy(obs["donor"].cat.codes.to_numpy().astype(np.int64))
    counts = torch.from_numpy(ds.csr(dtype="float32").toarray())
    n_classes = len(obs["donor"].cat.categories)

    def train(epochs: Iterable[Iterable[tuple[Any, Any]]]) -> float:
        torch.manual_seed(0)
        model = torch.nn.Linear(ds.n_genes, n_classes)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
        for epoch in epochs:
            for X, donors in epoch:
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(model(torch.log1p(X)), donors).backward()
                optimiser.step()
        with torch.no_grad():
            return float(torch.nn.functional.cross_entropy(model(torch.log1p(counts)), labels))

    n_epochs, size = 8, 50

    def of_batches(**options: Any) -> Iterator[Iterator[tuple[Any, Any]]]:
        loader = ds.loader(size, columns=["donor"], layout="torch", **options)
        for _ in range(n_epochs):
            yield ((batch.X, torch.from_numpy(batch.obs["donor"].astype(np.int64))) for batch in loader)

    shuffled = train(of_batches(seed=1, buffer=600))
    rng = np.random.default_rng(1)
    orders = [np.array_split(rng.permutation(1500), 30) for _ in range(n_epochs)]
    reference = train([[(counts[rows], labels[rows]) for rows in order] for order in orders])
    # Cells stand donor by donor.
    in_order = train(of_batches(shuffle=False))
    assert abs(shuffled - reference) < 0.1 * reference
    assert in_order > 1.5 * reference


def lit(ds: celltile.Dataset, seen: list[list[int]]) -> Any:
    """A model that notes which cells it was given."""
    lightning = pytest.importorskip("lightning.pytorch")

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(ds.n_genes, 1)

        def training_step(self, batch: Any, _: int) -> Any:
            seen.append(batch.cells.tolist())
            return self.layer(batch.X).square().mean()

        def validation_step(self, batch: Any, _: int) -> None:
            assert len(batch) > 0

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=1e-6)

    return Model()


def trainer(folder: Path, **options: Any) -> Any:
    return pytest.importorskip("lightning.pytorch").Trainer(
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        accelerator="cpu",
        use_distributed_sampler=False,
        default_root_dir=folder,
        **options,
    )


def module(ds: celltile.Dataset, workers: int = 0, **options: Any) -> Any:
    pytest.importorskip("lightning.pytorch")
    from celltile.lightning import CellDataModule  # noqa: PLC0415

    train, val = ds.split(fractions=(0.8, 0.2))
    return CellDataModule(ds, 100, train=train, val=val, num_workers=workers, buffer=300, **options)


def test_lightning(ds: celltile.Dataset, tmp_path: Path) -> None:
    seen: list[list[int]] = []
    cells = module(ds)
    trainer(tmp_path, max_epochs=2, enable_checkpointing=False).fit(lit(ds, seen), datamodule=cells)
    train, _ = ds.split(fractions=(0.8, 0.2))
    assert sorted(np.concatenate(seen)) == sorted([*train, *train])
    assert cells.state_dict()["epoch"] == 2


@pytest.mark.parametrize("workers", [0, 2])
def test_a_lightning_checkpoint_goes_on_with_the_next_batch(
    ds: celltile.Dataset, tmp_path: Path, workers: int
) -> None:
    callbacks = pytest.importorskip("lightning.pytorch.callbacks")
    whole: list[list[int]] = []
    trainer(tmp_path, max_epochs=3, enable_checkpointing=False).fit(
        lit(ds, whole), datamodule=module(ds, workers)
    )
    assert len(whole) == 36
    # In the middle of the second epoch of twelve batches, at its end, and in the first.
    for steps in (18, 24, 5):
        before: list[list[int]] = []
        keep = callbacks.ModelCheckpoint(tmp_path / str(steps), every_n_train_steps=steps, save_top_k=-1)
        first = trainer(tmp_path, max_steps=steps, callbacks=[keep])
        first.fit(lit(ds, before), datamodule=module(ds, workers))
        assert before == whole[:steps]
        after: list[list[int]] = []
        second = trainer(tmp_path, max_epochs=3, enable_checkpointing=False)
        second.fit(lit(ds, after), datamodule=module(ds, workers), ckpt_path=keep.best_model_path)
        assert after == whole[steps:]


def test_data_modules_learn_their_ranks_from_the_trainer(ds: celltile.Dataset) -> None:
    from celltile.scvi import SCVIDataModule  # noqa: PLC0415

    train, val = ds.split(fractions=(0.8, 0.2))
    found: list[list[int]] = []
    for rank in range(2):
        options = {"labels_key": "cell_type", "buffer": 300, "genes": [0, 1]}
        parts = SCVIDataModule(ds, 100, train=train, val=val, **options)
        # All that a model asks for before there is a trainer, and with it ranks: no loader is made for that.
        assert (parts.n_obs, parts.n_vars, parts.n_labels > 1, len(parts.registry)) == (1200, 2, True, 5)
        assert parts.state_dict() == {} and parts._train is None
        parts.trainer = SimpleNamespace(global_rank=rank, world_size=2)
        loader = parts.train_dataloader()
        assert parts.train_dataloader() is loader and len(loader) == 6
        # What dictionaries are made of.
        found.extend(batch.cells.tolist() for batch in loader.dataset)
        assert len(parts.val_dataloader()) == 2
        assert len(parts.inference_dataloader()) == 15
    assert sorted(np.concatenate(found)) == sorted(train)


def test_an_epoch_goes_on_under_a_trainer_of_other_ranks(ds: celltile.Dataset) -> None:
    parts = module(ds)
    batches = iter(parts.train_dataloader())
    taken = [next(batches).cells for _ in range(3)]
    parts.trainer = SimpleNamespace(global_rank=0, world_size=1)
    rest = cells(parts.train_dataloader())
    train, _ = ds.split(fractions=(0.8, 0.2))
    assert sorted(np.concatenate([*taken, *rest])) == sorted(train)


@pytest.mark.parametrize("drawn", [{"balance": "donor", "draws": 250}, {"weights": np.ones(1500)}, {}])
def test_validation_cells_are_all_there_whatever_training_draws(
    ds: celltile.Dataset, drawn: dict[str, Any]
) -> None:
    from celltile.scvi import SCVIDataModule  # noqa: PLC0415

    val = np.arange(700, 993)
    scvi_parts = SCVIDataModule(ds, 100, val=val, drop_last=True, **drawn)
    for loader, expected in (
        (scvi_parts.val_dataloader(), val),
        (scvi_parts.inference_dataloader(), np.arange(1500)),
    ):
        assert np.array_equal(np.concatenate(cells(loader.dataset)), expected)
    pytest.importorskip("lightning.pytorch")
    from celltile.lightning import CellDataModule  # noqa: PLC0415

    parts = CellDataModule(ds, 100, val=val, drop_last=True, **drawn)
    assert np.array_equal(np.concatenate(cells(parts.val_dataloader())), val)
    assert CellDataModule(ds, 100).val_dataloader() == []


def test_data_modules_go_on_from_a_state(ds: celltile.Dataset) -> None:
    from celltile.scvi import SCVIDataModule  # noqa: PLC0415

    def make_module() -> SCVIDataModule:
        return SCVIDataModule(ds, 100, buffer=300, genes=np.arange(5))

    def counts(loader: Any) -> list[Any]:
        return [batch["X"].tolist() for batch in loader]

    whole = counts(make_module().train_dataloader())
    first = make_module()
    batches = iter(first.train_dataloader())
    for _ in range(6):
        next(batches)
    second = make_module()
    second.load_state_dict(first.state_dict())
    assert second.state_dict() == first.state_dict()
    assert counts(second.train_dataloader()) == whole[6:]
    assert second.state_dict()["epoch"] == 1


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


def test_scvi_trains_for_an_epoch(real: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On real cells: those of three samples, told apart by the file they are from."""
    scvi = pytest.importorskip("scvi")
    from celltile.scvi import SCVIDataModule  # noqa: PLC0415

    # Where it leaves what it logs.
    monkeypatch.chdir(tmp_path)
    ds = celltile.open(real)
    train, val = ds.split(fractions=(0.9, 0.1))
    cells = SCVIDataModule(
        ds, 256, batch_key="sample", train=train, val=val, genes=np.arange(1000), buffer=4096
    )
    model = scvi.model.SCVI(registry=cells.registry)
    model.train(
        max_epochs=1,
        datamodule=cells,
        accelerator="cpu",
        enable_progress_bar=False,
        check_val_every_n_epoch=1,
    )
    for name in ("elbo_train", "elbo_validation"):
        assert np.isfinite(model.history[name].to_numpy(dtype=float)).all()
    latent = model.get_latent_representation(dataloader=cells.inference_dataloader())
    assert latent.shape[0] == ds.n_cells and np.isfinite(latent).all()
    assert cells.state_dict()["epoch"] == 1


def test_pinned_batches(ds: celltile.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a data loader calls; without a device to pin for, a copy stands in for pinned memory."""
    if not torch.cuda.is_available():
        monkeypatch.setattr(torch.Tensor, "pin_memory", torch.Tensor.clone)
    for layout in ("csr", "torch", "torch_csr"):
        batch = next(iter(ds.loader(50, layout=layout, columns="donor", totals=True)))
        pinned = batch.pin_memory()
        assert (type(pinned.X), pinned.X.shape) == (type(batch.X), batch.X.shape)
        assert pinned.cells is batch.cells and pinned.obs is batch.obs and pinned.totals is batch.totals
        if layout == "csr":
            assert pinned.X is batch.X
        else:
            assert torch.equal(densify(pinned.X), densify(batch.X)) and pinned.X.layout == batch.X.layout
