//! Processes that are killed while they put an array on another grid or append to it, and others that go on.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use celltile::storage::LocalStorage;
use celltile_zarr::{
    ArraySpec, Compression, Encoding, GridForm, KeyStore, RegridOptions, Target, ZarrArray, append, regrid,
};

use crate::support::{Numbers, Reference, random_grid, read_all};

/// The folder and the seed of a child process.
const CHILD: &str = "CELLTILE_KILLED_CHILD";

fn store(folder: &Path) -> Arc<KeyStore> {
    Arc::new(KeyStore::new(Arc::new(LocalStorage::new(folder))))
}

/// What parent and child both know: an array, and what becomes of it.
struct Plan {
    reference: Reference,
    target: Target,
    blocks: Vec<Reference>,
    axis: usize,
}

fn plan(seed: u64) -> Plan {
    let mut numbers = Numbers::new(seed);
    let ndim = 1 + (seed as usize) % 4;
    let most = [400, 24, 9, 6][ndim - 1];
    let shape: Vec<u64> = (0..ndim).map(|_| numbers.between(most / 2, most)).collect();
    let reference = Reference::random(&mut numbers, &shape);
    let encoding = Some(Encoding { compression: Compression::Zstd(1), ..Encoding::default() });
    let grid = random_grid(&mut numbers, &shape);
    // A grid that ends where the array ends, so that blocks can be appended.
    let ends = |axis: &celltile_grid::Axis| {
        celltile_grid::Axis::from_edges((0..axis.n_active()).map(|chunk| axis.chunk(chunk).unwrap().clipped))
            .unwrap()
    };
    let grid = celltile_grid::Grid::new(grid.axes().iter().map(ends).collect());
    let axis = numbers.between(0, ndim as u64 - 1) as usize;
    let mut blocks = Vec::new();
    for _ in 0..4 {
        let mut shape = shape.clone();
        shape[axis] = numbers.between(1, 3);
        blocks.push(Reference::random(&mut numbers, &shape));
    }
    Plan { reference, target: Target { grid, form: GridForm::Rectilinear, encoding }, blocks, axis }
}

/// Does what is left to do; in a process of its own, which may be killed.
#[test]
fn child() {
    let Ok(task) = std::env::var(CHILD) else { return };
    let (seed, folder) = task.split_once(':').unwrap();
    let plan = plan(seed.parse().unwrap());
    let store = store(Path::new(folder));
    if ZarrArray::open(Arc::clone(&store), "/new").is_err() {
        let source = ZarrArray::open(Arc::clone(&store), "/old").unwrap();
        regrid(&source, &store, "/new", &plan.target, &RegridOptions::default()).unwrap();
    }
    let start = plan.reference.shape[plan.axis];
    let mut end = start;
    for block in &plan.blocks {
        let array = ZarrArray::open(Arc::clone(&store), "/new").unwrap();
        if array.grid().shape()[plan.axis] == end {
            append(&array, plan.axis, block.shape[plan.axis], &block.bytes()).unwrap();
        }
        end += block.shape[plan.axis];
    }
}

#[test]
fn killed_processes_leave_arrays_that_others_complete() {
    let mut killed = 0;
    for seed in 0..8_u64 {
        let folder = tempfile::tempdir().unwrap();
        let plan = plan(seed);
        let store = store(folder.path());
        let grid = random_grid(&mut Numbers::new(seed + 100), &plan.reference.shape);
        let spec = ArraySpec::new(grid, GridForm::Rectilinear, "int32");
        let array = ZarrArray::create(Arc::clone(&store), "/old", &spec).unwrap();
        plan.reference.write(&array);
        array.store_metadata().unwrap();
        // Every reader sees the array as it was before a block or after it.
        let mut states = vec![plan.reference.clone()];
        for block in &plan.blocks {
            states.push(states.last().unwrap().append(plan.axis, block));
        }
        for attempt in 0.. {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "kill::child", "--nocapture"])
                .env(CHILD, format!("{seed}:{}", folder.path().display()))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            // Ever later, so that each comes to its end.
            std::thread::sleep(Duration::from_millis(4 + 5 * attempt * (1 + seed % 3)));
            let ended = child.try_wait().unwrap();
            child.kill().unwrap();
            let status = child.wait().unwrap();
            killed += u32::from(ended.is_none() && !status.success());
            if let Ok(array) = ZarrArray::open(Arc::clone(&store), "/new") {
                let found = read_all(&array);
                assert!(states.contains(&found), "seed {seed}, attempt {attempt}, {:?}", found.shape);
            }
            if status.success() {
                break;
            }
            assert!(attempt < 200, "seed {seed} does not come to its end");
        }
        let array = ZarrArray::open(Arc::clone(&store), "/new").unwrap();
        assert_eq!(&read_all(&array), states.last().unwrap(), "seed {seed}");
    }
    eprintln!("{killed} processes killed");
}
