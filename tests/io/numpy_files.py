"""Exchanges files with rowmax's tests: `write FOLDER` makes them with numpy, `check FOLDER` reads what rowmax wrote.

Exits with 77 when numpy is not installed.
"""

import pathlib
import sys

try:
    import numpy as np
except ImportError:
    sys.exit(77)


def tokens(dtype):
    return np.arange(24).reshape(2, 4, 3).astype(dtype)


def write(folder):
    for dtype in ("f2", "f4", "f8", "i1", "u1", "i2", "i4", "i8", "b1"):
        np.save(folder / f"{dtype}.npy", tokens(dtype))
    for version in ((1, 0), (2, 0), (3, 0)):
        with open(folder / f"version{version[0]}.npy", "wb") as file:
            np.lib.format.write_array(file, tokens("f4"), version=version)
    np.save(folder / "fortran.npy", np.asfortranarray(tokens("f4")))
    np.save(folder / "big_endian.npy", tokens(">f4"))
    np.save(folder / "object.npy", np.array([1, "a"], dtype=object), allow_pickle=True)
    np.save(folder / "empty.npy", np.zeros((0, 4, 3), "f4"))
    np.save(folder / "bits.npy", (tokens("f4").view("u4") >> 16).astype("u2"))
    members = {
        "tokens": tokens("f4").reshape(8, 3),
        "cu_seqlens": np.array([0, 3, 3, 8]),
        "ids": np.array(["é", "doc-2", "😀"]),
    }
    np.savez(folder / "stored.npz", **members)
    np.savez_compressed(folder / "deflated.npz", **members)
    np.savez(folder / "positional.npz", tokens("f2"))
    write_bfloat16(folder)


def write_bfloat16(folder):
    try:
        import ml_dtypes
    except ImportError:
        return
    np.save(folder / "bfloat16.npy", tokens(ml_dtypes.bfloat16))


def check(folder):
    for path in folder.glob("*.npy"):
        array = np.load(path)
        if path.stem == "float32":
            assert array.dtype == np.float32 and array.shape == (2, 3, 2), (array.dtype, array.shape)
            assert (array.ravel() == np.arange(12)).all()
        elif path.stem == "bfloat16":
            assert array.dtype == np.dtype("V2") and array.shape == (2, 3, 2), (array.dtype, array.shape)
        elif path.stem == "int64":
            assert array.dtype == np.int64 and array.tolist() == [0, 1, 2]
        elif path.stem == "scalar":
            assert array.shape == () and array == 0
        else:
            raise AssertionError(f"what is {path}?")


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](pathlib.Path(sys.argv[2]))
