"""Frames of videos: the scenes, upright, within bounds; hostile files are refused in a line."""

import os
import sys
from pathlib import Path

import pytest
from PIL import Image
from test_images import near
from video_files import BLACK, GREEN, SIZE, SUNNY, write_video

from limner.pictures import videos
from limner.pictures.decode import PictureError
from limner.pictures.find import VideoFile, source_path, walk
from limner.pictures.videos import ABOUT, discard, frames

GOLD, NAVY, DARK_GREEN = (255, 215, 0), (0, 0, 128), (0, 100, 0)


@pytest.fixture
def draw(tmp_path):
    def run(path, stopped=lambda: False):
        (entry,) = walk([source_path(path)])
        assert isinstance(entry, VideoFile)
        return frames(entry, tmp_path / "lib", stopped)

    return run


def path(frame):
    return Path(os.fsdecode(frame.path))


def times(found):
    return [float(path(one).name.removesuffix("s.jpg")) for one in found]


def shown(found):
    return Image.open(path(found))


@pytest.mark.parametrize(
    ("name", "codec"), [("a.mp4", "mpeg4"), ("a.MOV", "libx264"), ("a.webm", "libvpx"), ("a.avi", "mpeg4")]
)
def test_one_frame_of_each_scene(tmp_path, draw, name, codec):
    first, second = found = draw(write_video(tmp_path / name, SUNNY, GREEN, codec=codec))
    assert times(found) == [0.0, 3.0]
    assert near(shown(first).getpixel((20, 30)), GOLD, 30)
    assert near(shown(second).getpixel((80, 30)), DARK_GREEN, 30)
    assert first.source == os.fsencode(tmp_path / name)


def test_frames_are_two_seconds_apart_and_blank_ones_passed_by(tmp_path, draw):
    video = write_video(tmp_path / "a.mp4", BLACK, SUNNY, GREEN, BLACK, GREEN, seconds=1)
    assert times(draw(video)) == [1.0, 4.0]
    with pytest.raises(PictureError, match="no frame that is not blank"):
        draw(write_video(tmp_path / "black.mp4", BLACK))


def test_a_long_video_is_looked_through_to_its_end(tmp_path, draw, monkeypatch):
    monkeypatch.setattr(videos, "MAX_FRAMES", 3)
    found = draw(write_video(tmp_path / "a.mp4", *(6 * (SUNNY, GREEN)), seconds=2))
    assert times(found) == [0.0, 10.0, 20.0]


@pytest.mark.parametrize(("rotation", "corner"), [(90, (30, 85)), (-90, (30, 10)), (180, (85, 30))])
def test_frames_are_upright(tmp_path, draw, rotation, corner):
    (frame,) = draw(write_video(tmp_path / "a.mp4", SUNNY, rotation=rotation))
    image = shown(frame)
    assert image.size == (SIZE if rotation == 180 else SIZE[::-1])
    assert near(image.getpixel(corner), GOLD, 30), "the left of what the sensor saw"


def test_what_the_file_and_its_neighbours_say_are_words_of_each_frame(tmp_path, draw):
    stated = {"title": "Grandma bakes bread", "artist": "Anna", "creation_time": "2019-07-21T14:03:55Z"}
    video = write_video(tmp_path / "flour-and-water.mp4", SUNNY, GREEN, copyright="CC0", **stated)
    video.with_suffix(".txt").write_text("In the old kitchen")
    _, second = draw(video)
    words = second.words
    assert [one.text for one in words.captions] == [
        "In the old kitchen",
        "Grandma bakes bread",
        "flour and water",
    ]
    assert (words.credit, words.license) == ("Anna, flour-and-water.mp4 at 3.0 s", "CC0")
    assert words.taken.isoformat() == "2019-07-21T14:03:58+00:00"


def test_a_video_is_decoded_once_and_again_when_it_changed(tmp_path, draw, monkeypatch):
    video = write_video(tmp_path / "a.mp4", SUNNY, GREEN)
    before = draw(video)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "av", None)
        assert draw(video) == before
    write_video(video, GREEN)
    (after,) = draw(video)
    assert near(shown(after).getpixel((80, 30)), DARK_GREEN, 30)
    assert not path(before[1]).exists()
    path(after).unlink()
    assert draw(video)[0].path == after.path, "what was lost of the frames is drawn again"


def test_a_flipped_bit_in_what_is_known_of_a_video_draws_it_again(tmp_path, draw):
    video = write_video(tmp_path / "a.mp4", SUNNY, GREEN)
    before = [one.words for one in draw(video)]
    known = path(draw(video)[0]).with_name(ABOUT)
    whole = known.read_bytes()
    place = whole.index(b'"fault"') + 8
    known.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    assert [one.words for one in draw(video)] == before
    assert known.read_bytes() == whole


def test_only_frames_of_the_library_are_discarded(tmp_path, draw):
    video = write_video(tmp_path / "a.mp4", SUNNY, GREEN)
    first, second = draw(video)
    for one in (first.source, first.path):
        discard(one, tmp_path / "lib")
    assert video.exists()
    assert [path(one).exists() for one in (first, second)] == [False, True]
    discard(second.path, tmp_path / "lib")
    assert list((tmp_path / "lib" / "frames").iterdir()) == []


def test_it_stops_between_frames_and_leaves_nothing_behind(tmp_path, draw):
    asked = iter((False, True))
    assert draw(write_video(tmp_path / "a.mp4", SUNNY, GREEN), stopped=lambda: next(asked)) == ()
    assert list((tmp_path / "lib" / "frames").iterdir()) == []


def test_without_the_extra_it_says_what_to_install(tmp_path, draw, monkeypatch):
    video = write_video(tmp_path / "a.mov", SUNNY)
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(PictureError) as caught:
        draw(video)
    assert str(caught.value) == (
        "frames of videos (.mov) need av, which is not installed; run: pip install 'limner[video]'"
    )


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (("MAX_VIDEO_BYTES", 100), "bytes; at most 100 are read"),
        (("MAX_VIDEO_S", 2), "3 s long; frames are taken from at most 2 s"),
        (("MAX_DECODED_PIXELS", 96 * 64 - 1), "96 × 64 pixels; at most"),
    ],
)
def test_sizes_are_checked_before_anything_is_decoded(tmp_path, draw, monkeypatch, limit, said):
    monkeypatch.setattr(videos, *limit)
    with pytest.raises(PictureError, match=said) as caught:
        draw(write_video(tmp_path / "a.mp4", SUNNY))
    assert caught.value.lasting
    assert not list((tmp_path / "lib").rglob("*.jpg"))


def test_hostile_files_are_refused_and_open_no_other(tmp_path, draw):
    good = write_video(tmp_path / "good.mp4", SUNNY)
    data = good.read_bytes()
    bad = {
        "short.mp4": data[: len(data) // 2],
        "empty.mp4": b"",
        "words.mp4": b"no video at all" * 100,
        "list.mp4": f"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nfile://{good}\n#EXT-X-ENDLIST\n".encode(),
        "concat.mkv": f"ffconcat version 1.0\nfile {good}\n".encode(),
    }
    for name, content in bad.items():
        (tmp_path / name).write_bytes(content)
        refusal = r"^(damaged or unknown video: .+|the file contains no video.*|the file is empty)$"
        with pytest.raises(PictureError, match=refusal):
            draw(tmp_path / name)
    os.mkfifo(tmp_path / "pipe.mp4")
    (entry,) = walk([source_path(tmp_path / "pipe.mp4")])
    assert "pipe" in entry.reason


def test_what_can_be_decoded_of_a_damaged_video_is_used(tmp_path, draw):
    video = write_video(tmp_path / "a.mkv", SUNNY, GREEN)
    data = video.read_bytes()
    video.write_bytes(data[: len(data) * 3 // 4])
    assert times(draw(video))[0] == 0.0
    assert '"rule": 1' in next((tmp_path / "lib" / "frames").rglob(ABOUT)).read_text()
