"""Segments of pictures that are made here or that scikit-learn ships."""

import io
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_sample_image

from maxmargin import (
    AlternatingMarginClustering,
    LeastSquaresMarginClustering,
    SemidefiniteMarginClustering,
    segment_image,
)
from maxmargin._data.images import read_image, write_image
from maxmargin._files import DataError
from maxmargin.cli import main as cli
from maxmargin.segmentation import (
    PALETTE,
    as_pixels,
    cielab,
    kmeans_segments,
    picture_settings,
    pixel_features,
)

INSIDE = (slice(4, 28), slice(8, 34))


def noisy_square(seed=0, ground=(40, 90, 60), square=(190, 120, 70), noise=12):
    """A square of another colour on a ground, (32, 48, 3) uint8."""
    pixels = np.full((32, 48, 3), ground, float)
    pixels[INSIDE] = square
    pixels += np.random.default_rng(seed).normal(scale=noise, size=pixels.shape)
    return np.clip(pixels, 0, 255).astype(np.uint8)


def is_square(labels):
    """Whether segment 1 is the square, up to a few noisy pixels."""
    truth = np.zeros((32, 48), int)
    truth[INSIDE] = 1
    return np.mean(labels == truth) > 0.99


@pytest.fixture(scope="module")
def flower():
    return load_sample_image("flower.jpg")[::3, ::3]


# -- what is found --------------------------------------------------------------------------------


@pytest.mark.parametrize("features", ["rgb", "lab", "rgb+xy"])
def test_finds_the_square(features):
    found = segment_image(noisy_square(), features=features)
    assert is_square(found.labels)
    assert found.shares == pytest.approx([np.mean(found.labels == j) for j in (0, 1)])


@pytest.mark.parametrize("estimator", [None, SemidefiniteMarginClustering(balance=0.5)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_more_segments_by_splitting(estimator):
    pixels = noisy_square()
    pixels[:, 36:] = [20, 20, 200]
    found = segment_image(pixels, 3, estimator=estimator, fit_pixels=200)
    assert len(np.unique(found.labels[:, 36:])) == 1
    assert np.mean(found.labels[INSIDE] == found.labels[16, 20]) > 0.98
    assert len({found.labels[0, 0], found.labels[16, 20], found.labels[30, 40]}) == 3


def test_place_makes_regions_smoother():
    pixels = noisy_square(square=(60, 90, 70), noise=14)
    edges = []
    for features in ("rgb", "rgb+xy"):
        labels = segment_image(pixels, features=features).labels
        edges.append((labels[:, 1:] != labels[:, :-1]).sum())
    assert edges[1] < 0.7 * edges[0]


def test_weighted_colours_are_the_pixels_one_by_one():
    pixels = noisy_square()[::2, ::2] // 32 * 32  # few colours, many pixels each
    model = AlternatingMarginClustering(gamma=4e-6, balance=0.5, random_state=0)
    found = segment_image(pixels, estimator=model)
    plain = model.fit(pixels.reshape(-1, 3).astype(float))
    assert (found.labels.ravel() == plain.labels_).all()


def test_a_sample_is_fitted_and_all_pixels_are_labelled(flower):
    found = segment_image(flower, fit_pixels=500)
    assert found.model.labels_.size <= 500 < found.labels.size
    full = segment_image(flower, fit_pixels=10_000)
    assert np.mean(found.labels == full.labels) > 0.97
    again = found.model.predict(pixel_features(found.pixels, "rgb"))
    assert (again.reshape(found.labels.shape) == found.labels).all()


def test_sampled_pixels_of_one_colour_weigh_together(flower):
    found = segment_image(flower // 16 * 16, fit_pixels=300)
    assert found.model.cluster_sizes_.sum() == 300 > len(found.model.labels_)


def test_segments_of_kmeans_are_numbered_by_falling_size():
    for seed in range(4):
        found = kmeans_segments(noisy_square(), 3, random_state=seed)
        assert (np.diff(found.shares) <= 0).all()
        assert found.shares == pytest.approx([np.mean(found.labels == j) for j in range(3)])


def test_threads_and_seeds(flower):
    both = [segment_image(flower, features="rgb+xy", n_jobs=jobs) for jobs in (1, 2)]
    assert both[0].labels.size > 16_384  # more than one block of rows
    assert (both[0].labels == both[1].labels).all()
    assert (segment_image(flower, features="rgb+xy").labels == both[0].labels).all()


# -- pictures of every kind -----------------------------------------------------------------------


def test_kinds_of_arrays_give_the_same_segments():
    pixels = noisy_square()
    expected = segment_image(pixels).labels
    kinds = {
        "uint16": pixels.astype(np.uint16) * 257,
        "float": pixels / 255.0,
        "float32": (pixels / 255.0).astype(np.float32),
        "rgba": np.dstack([pixels, np.full((32, 48), 255, np.uint8)]),
        "list": pixels.tolist(),
    }
    for kind, image in kinds.items():
        image = np.array(image, np.uint8) if kind == "list" else image
        assert (segment_image(image).labels == expected).all(), kind


def test_grey_with_and_without_channels():
    grey = noisy_square()[:, :, 0]
    expected = segment_image(grey)
    assert is_square(expected.labels) and expected.pixels.shape == (32, 48, 3)
    for other in (grey[:, :, None], np.dstack([grey, np.full_like(grey, 255)]), grey > 110):
        assert is_square(segment_image(other).labels)


def test_transparent_pixels_are_left_out():
    pixels = np.dstack([noisy_square(), np.full((32, 48), 255, np.uint8)])
    pixels[:3] = [255, 0, 255, 0]  # a colour that nobody sees
    found = segment_image(pixels)
    assert (found.labels[:3] == -1).all() and (found.labels[3:] >= 0).all()
    assert found.labels[16, 20] == 1 and found.labels[30, 40] == 0
    assert found.shares.sum() == pytest.approx(1.0)
    assert (found.overlay()[:3] == 255).all()
    assert (kmeans_segments(pixels).labels[:3] == -1).all()


def test_cielab_of_known_colours():
    known = {  # the values of the CIE's formula for sRGB under D65
        (255, 255, 255): (100.0, 0.0, 0.0),
        (0, 0, 0): (0.0, 0.0, 0.0),
        (255, 0, 0): (53.24, 80.09, 67.20),
        (0, 255, 0): (87.73, -86.18, 83.18),
        (0, 0, 255): (32.30, 79.19, -107.86),
        (119, 119, 119): (50.03, 0.0, 0.0),
    }
    found = cielab(np.array(list(known))) / 2.55
    assert found == pytest.approx(np.array(list(known.values())), abs=0.03)


def test_pictures_of_the_segments():
    found = segment_image(noisy_square())
    assert (found.overlay(1.0)[16, 20] == PALETTE[1]).all()
    assert (found.overlay(0.0) == found.pixels).all()
    cut = found.cut_out(1)
    assert (cut[:, :, 3] == np.where(found.labels == 1, 255, 0)).all()
    assert (cut[:, :, :3] == found.pixels).all()
    flat = found.flat()
    assert len(np.unique(flat.reshape(-1, 3), axis=0)) == 2
    inside = found.pixels[found.labels == 1].mean(axis=0)
    assert flat[16, 20] == pytest.approx(inside, abs=0.5)
    with pytest.raises(ValueError, match="segment must lie between 0 and 1, got 2"):
        found.cut_out(2)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros((4, 4, 5)), r"1 to 4 channels, got \(4, 4, 5\)"),
        (np.zeros(4), r"got \(4,\)"),
        (np.zeros((0, 4), np.uint8), r"got \(0, 4\)"),
        (np.zeros((1, 1, 3), np.uint8), "1 x 1 pixels of one colour, too few for n_segments=2"),
        (np.full((9, 9, 3), 7, np.uint8), "9 x 9 pixels of one colour"),
        (np.full((9, 9), 300.0), "between 0 and 1"),
        (np.full((9, 9), np.nan), "between 0 and 1"),
        (np.zeros((9, 9), np.int64), "uint8, uint16, bool or float, got int64"),
        (np.zeros((9, 9, 4), np.uint8), "completely transparent"),
    ],
)
def test_bad_pictures_are_refused(image, message):
    with pytest.raises(ValueError, match=message):
        segment_image(image)


def test_settings_for_pictures_reach_every_method():
    model = picture_settings(LeastSquaresMarginClustering(), balance=0.2)
    assert (model.balance, model.cluster_sizes, model.gamma) == (0.2, "adaptive", "half-median")
    model = picture_settings(AlternatingMarginClustering())
    assert (model.balance, model.gamma, model.tol) == (0.5, 1 / 500**2, 1e-3)


def test_bad_settings_are_refused():
    image = noisy_square() // 128 * 128
    colours = len(np.unique(image.reshape(-1, 3), axis=0))
    with pytest.raises(ValueError, match=f"of {colours} colours, too few for n_segments=20"):
        segment_image(image, 20)
    with pytest.raises(ValueError, match="features must be one of rgb, lab, rgb"):
        segment_image(image, features="hsv")
    for wrong in (0, 2.5, "two"):
        with pytest.raises(ValueError, match="n_segments must be a whole number above 0"):
            segment_image(image, wrong)


# -- files ----------------------------------------------------------------------------------------


def test_files_of_every_kind_are_read(tmp_path):
    pixels = noisy_square()
    grey16 = pixels[:, :, 0].astype(np.uint16) * 257
    Image.fromarray(pixels).save(tmp_path / "a.png")
    Image.fromarray(pixels).save(tmp_path / "a.jpg", quality=95)
    Image.fromarray(pixels).convert("L").save(tmp_path / "grey.png")
    Image.fromarray(pixels).convert("CMYK").save(tmp_path / "cmyk.jpg", quality=95)
    Image.fromarray(pixels).convert("P").save(tmp_path / "palette.png")
    Image.fromarray(pixels).convert("RGBA").save(tmp_path / "rgba.png")
    Image.fromarray(grey16).save(tmp_path / "grey16.png")
    assert (read_image(tmp_path / "a.png") == pixels).all()
    assert (read_image(tmp_path / "grey16.png") == grey16).all()
    for name in os.listdir(tmp_path):
        assert is_square(segment_image(read_image(tmp_path / name)).labels), name


def test_photos_are_turned_upright(tmp_path):
    image = Image.fromarray(noisy_square())
    exif = image.getexif()
    exif[0x0112] = 6  # the camera was held on its side
    image.save(tmp_path / "turned.jpg", exif=exif, quality=95)
    assert read_image(tmp_path / "turned.jpg").shape == (48, 32, 3)
    plain = np.asarray(Image.open(tmp_path / "turned.jpg"))
    assert (read_image(tmp_path / "turned.jpg") == np.rot90(plain, -1)).all()


def test_transparent_palettes_stay_transparent(tmp_path):
    image = Image.fromarray(noisy_square()).quantize(8)
    image.info["transparency"] = int(np.asarray(image)[0, 0])
    image.save(tmp_path / "p.png", transparency=image.info["transparency"])
    read = read_image(tmp_path / "p.png")
    assert read.shape == (32, 48, 4) and read[0, 0, 3] == 0 and read[16, 20, 3] == 255


def test_damaged_files_are_explained(tmp_path):
    buffer = io.BytesIO()
    Image.fromarray(noisy_square()).save(buffer, "png")
    (tmp_path / "cut.png").write_bytes(buffer.getvalue()[:900])
    (tmp_path / "text.png").write_text("no picture at all")
    with pytest.raises(DataError, match=r"cut.png is damaged or cut short"):
        read_image(tmp_path / "cut.png")
    with pytest.raises(DataError, match=r"text.png is not a picture"):
        read_image(tmp_path / "text.png")
    with pytest.raises(DataError, match="does not exist"):
        read_image(tmp_path / "none.png")


def test_written_pictures_come_back(tmp_path):
    found = segment_image(noisy_square())
    write_image(tmp_path / "cut.png", found.cut_out(1))
    assert (read_image(tmp_path / "cut.png") == found.cut_out(1)).all()
    write_image(tmp_path / "cut.jpg", found.cut_out(1))
    assert read_image(tmp_path / "cut.jpg")[0, 0].min() > 230
    assert sorted(os.listdir(tmp_path)) == ["cut.jpg", "cut.png"]


def test_missing_pillow_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ImportError, match=r'pip install "maxmargin\[images\]"'):
        read_image("a.png")
    segment_image(noisy_square())


# -- the command ----------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a command in a folder with a picture; returns exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    Image.fromarray(noisy_square()).save("p.png")

    def call(line):
        capsys.readouterr()
        return cli.main(line.split()), *capsys.readouterr()

    return call


def test_segment_writes_the_picture(run):
    code, out, err = run("segment p.png --out r.png")
    assert (code, err) == (0, "") and "48 x 32 pixels -> 2 regions" in out
    assert "wrote r.png (picture)" in out
    assert (read_image("r.png") == segment_image(noisy_square()).overlay()).all()
    assert run("segment p.png --out c.png --cut-out 1")[0] == 0
    assert (read_image("c.png") == segment_image(noisy_square()).cut_out(1)).all()
    assert run("segment p.png --out s.jpg --side-by-side")[0] == 0
    assert read_image("s.jpg").shape == (32, 3 * 48 + 16, 3)


# Least squares pulls the sizes towards those it tries.
@pytest.mark.parametrize(
    ("method", "off"),
    [("alternating", 0.002), ("least-squares", 0.03), ("cutting-plane", 0.03)],
)
def test_segment_tells_json(run, method, off):
    code, out, _ = run(f"segment p.png -k 2 --method {method} --features lab --json")
    told = json.loads(out)
    assert code == 0 and told["method"] == method and told["features"] == "lab"
    assert told["shares"][1] == pytest.approx(24 * 26 / (32 * 48), abs=off)
    assert told["wrote"] == {} and (told["height"], told["width"]) == (32, 48)


def test_balance_reaches_the_method(run):
    shares = json.loads(run("segment p.png --balance 1 --json")[1])["shares"]
    assert shares == pytest.approx([0.5, 0.5], abs=0.01)


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("segment none.png", 1, "none.png does not exist"),
        ("segment p.png -k 0", 2, "whole number above 0"),
        ("segment p.png --features hsv", 2, "invalid choice: 'hsv'"),
        ("segment p.png --method bisecting", 2, "invalid choice: 'bisecting'"),
        ("segment p.png --out p.png", 2, "--out p.png would overwrite p.png"),
        ("segment p.png --out r.gif", 2, "do not know how to write .gif"),
        ("segment p.png --out none/r.png", 2, "there is no folder none"),
        ("segment p.png --side-by-side", 2, "need --out FILE"),
        ("segment p.png --out r.png --side-by-side --cut-out 1", 2, "give one"),
        ("segment p.png --out r.png --cut-out 2", 2, "--cut-out must lie between 0 and 1"),
        ("segment p.png -k 2000", 1, "p.png: image has 32 x 48 pixels of"),
    ],
)
def test_bad_commands(run, line, code, message):
    got, out, err = run(line)
    assert (got, out) == (code, "") and message in err
    assert err.count("\n") == 1 and not Path("r.png").exists()


def test_as_pixels_does_not_copy_more_than_it_must():
    pixels = noisy_square()
    assert np.shares_memory(as_pixels(pixels)[0], pixels)
