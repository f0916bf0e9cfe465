"""What annbatch makes of h5ad files: one shuffled collection. `bench/convert.py --annbatch` runs it in a process of its own.

python bench/annbatch_shuffle.py TARGET.zarr DATASET_SIZE INPUT...
"""

import sys

import annbatch

if __name__ == "__main__":
    target, dataset_size, *inputs = sys.argv[1:]
    annbatch.DatasetCollection(target).add_adatas(inputs, dataset_size=dataset_size)
