"""The order in which the photographs of a folder were taken, from made-up names, times and hashes."""

import random
from datetime import UTC, datetime, timedelta, timezone

import pytest

from limner.pictures.metadata import words_of_name
from limner.pictures.taking import row_order
from limner.records import Picture

BERLIN, LISBON = timezone(timedelta(hours=2)), timezone(timedelta(hours=1))


def at(clock, zone=None):
    """A time on one day."""
    return datetime.fromisoformat(f"2024-05-12T{clock}").replace(tzinfo=zone)


def shot(name, taken=None, source="camera", *, phash=None, group=None, side=100):
    """A picture; without a time, that of its name. No two look alike unless they say so."""
    named = words_of_name(name.encode())
    if taken is None:
        taken, source = named.taken, named.taken_from if named.taken else ""
    ident = name.encode().hex().ljust(64, "0")[-64:]
    look = f"{random.Random(name).getrandbits(64):016x}"
    return Picture(
        id=ident,
        paths=(f"/p/{name}",),
        width_px=side,
        height_px=side,
        format="JPEG",
        size_bytes=side,
        phash=phash or look,
        group=group or ident,
        taken=taken,
        taken_from=source,
    )


def order_of(shots, **options):
    """Kind, names by place and steps, whatever order the pictures are given in."""
    names = {picture.id: picture.path.removeprefix("/p/").rpartition(".")[0] for picture in shots}
    order = row_order(shots, root="/p", **options)
    mixed = random.Random(0).sample(shots, len(shots))
    assert row_order(mixed, root="/p", **options) == order
    if order is None:
        return None
    places = [[names[picture] for picture in place] for place in order.places]
    return order.kind, [place[0] if len(place) == 1 else place for place in places], dict(order.steps)


def kind_and_names(shots, **options):
    kind, names, _ = order_of(shots, **options)
    return kind, names


def test_numbers_of_a_person_win_over_times():
    names = [f"step-{number}" for number in range(1, 11)]
    shots = [shot(f"{name}.jpg", at(f"11:{number:02}:00")) for number, name in enumerate(names)]
    shots[2] = shot("step-3.jpg", at("18:02:00"))
    assert order_of(shots) == ("numbers", names, {place: place for place in range(10)})


@pytest.mark.parametrize(
    ("names", "steps", "due"),
    [
        (["01 mix", "02 knead", "10 bake"], None, {}),
        (["01 mix", "02 knead", "10 bake"], 10, {0: 0, 1: 1, 2: 9}),
        (["01 mix", "02 knead", "10 bake"], 9, {}),
        (["1", "2", "3"], 7, {}),
        (["page007", "page010"], None, {0: 6, 1: 9}),
        (["Schritt 1", "Schritt 3a", "Schritt 3b"], None, {0: 0, 1: 2, 2: 2}),
        (["1", "2", "3a", "3b"], 3, {0: 0, 1: 1, 2: 2, 3: 2}),
        (["step-1", "step-2", "the kitchen"], 5, {0: 0, 1: 1}),
        (["step-1", "step-12"], 10, {}),
        (["step-0", "step-1"], 10, {}),
        (["bread (1)", "bread (2)", "bread (10)"], None, {}),
        (["beach 2", "beach 3", "beach 12"], 12, {0: 1, 1: 2, 2: 11}),
    ],
)
def test_numbers_of_a_person_may_be_those_of_steps(names, steps, due):
    assert order_of([shot(f"{name}.jpg") for name in names], steps=steps) == ("numbers", names, due)


@pytest.mark.parametrize(
    "names",
    [
        ["629f6fbed82c07cd", "91b7584a2265b1f5", "97b750923ceb3ffd"],
        ["cat", "beach 2", "harbour"],
        ["Oslo 2019", "Oslo 2020"],
        ["image", "image (1)", "image (2)"],
        ["WhatsApp Image 2024-05-12", "apple", "tree"],
        ["DSC_0001", "DSC_0002", "IMG_0001", "IMG_0002"],
        [],
    ],
)
def test_words_hashes_uploads_and_two_counters_have_no_order(names):
    assert order_of([shot(f"{name}.jpg") for name in names]) is None


def test_names_have_a_natural_order():
    names = ["a2", "a10", "b1", "b1/a2"]
    assert order_of([shot(f"{name}.jpg") for name in names], by="name") == ("name", names, {})


def test_numbers_that_repeat_are_no_order():
    shots = [shot("1 cat.jpg", at("10:02:00")), shot("1 dog.jpg", at("10:01:00")), shot("2 hens.jpg")]
    assert kind_and_names(shots) == ("taken", ["1 dog", "1 cat", "2 hens"])


def test_tenths_of_a_second_and_then_names():
    clocks = {"BV_1": "10:15:02.12", "BV_3": "10:15:02.3", "BV_2": "10:15:02.91", "BV_10": "10:15:02.91"}
    shots = [shot(f"{name}.jpg", at(f"{clock:0<15}")) for name, clock in clocks.items()]
    assert kind_and_names(shots) == ("taken", list(clocks))


def test_times_are_instants_where_all_state_a_zone_and_else_as_the_clocks_read():
    camera, phone = ("DSC_1.jpg", "02:13:40"), ("IMG_9.jpg", "02:31:09")
    zoned = [shot(camera[0], at(camera[1], LISBON)), shot(phone[0], at(phone[1], BERLIN))]
    assert kind_and_names(zoned) == ("taken", ["IMG_9", "DSC_1"])
    plain = [shot(camera[0], at(camera[1])), shot(phone[0], at(phone[1], BERLIN))]
    assert kind_and_names(plain) == ("taken", ["DSC_1", "IMG_9"])


def test_a_counter_orders_where_no_time_does_and_one_that_wraps_goes_by_time():
    names = ["IMG-20240512-WA0007", "IMG-20240512-WA0008", "IMG-20240512-WA0010"]
    assert kind_and_names([shot(f"{name}.jpg") for name in names]) == ("counter", names)
    scans = ["Scan 3", "Scan 9", "Scan 10", "oven"]
    digitized = [shot(f"{name}.jpg", at("12:00:00"), "digitized") for name in scans]
    assert kind_and_names(digitized) == ("counter", scans)
    wrapped = ["IMG_9998", "IMG_9999", "IMG_0001"]
    timed = [shot(f"{name}.jpg", at(f"09:0{minute}:00")) for minute, name in enumerate(wrapped)]
    assert kind_and_names(timed) == ("taken", wrapped)


def test_a_photograph_without_a_time_stands_by_name_at_the_end_of_its_day_or_last():
    shots = [
        shot("IMG_0001.jpg", at("10:00:00")),
        shot("IMG_0003.jpg", at("10:02:00")),
        shot("party.jpg", at("22:00:00")),
        shot("later.jpg", datetime(2024, 5, 13, 8)),
        shot("IMG_0002.jpg"),
        shot("IMG-20240512-WA0011.jpg"),
        shot("IMG-20240512-WA0002.jpg"),
        shot("apple.jpg"),
    ]
    due = ["IMG_0001", "IMG_0002", "IMG_0003", "party", "IMG-20240512-WA0002", "IMG-20240512-WA0011", "later"]
    assert kind_and_names(shots) == ("taken", [*due, "apple"])


def test_photographs_of_one_time_or_few_times_have_no_order():
    assert order_of([shot("cat.jpg", at("10:00:00")), shot("dog.jpg", at("10:00:00"))]) is None
    assert order_of([shot("cat.jpg", at("10:00:00")), shot("dog.jpg"), shot("hen.jpg")]) is None


def test_a_burst_of_a_camera_is_one_place_and_photographs_that_look_alike_are_not():
    def series(source, *clocks):
        return [
            shot(f"IMG_{number}.jpg", at(clock), source, group="same", phash="0f" * 8, side=100 + number % 3)
            for number, clock in enumerate(clocks, 1)
        ]

    assert order_of(series("camera", "10:00:00", "10:00:01", "10:00:09"))[1] == [["IMG_2", "IMG_1"], "IMG_3"]
    assert order_of(series("stated", "10:00:00", "10:00:01"))[1] == ["IMG_1", "IMG_2"]


def test_edits_copies_and_the_same_name_and_time_are_versions():
    alike = {"phash": "0f" * 8}
    shots = [
        shot("IMG_0003.JPG", at("10:00:00")),
        shot("IMG_E0003.JPG"),
        shot("IMG_0004.jpg", **alike, side=200),
        shot("IMG_0004-edited.jpg"),
        shot("IMG_0004 (1).jpg", **alike),
        shot("IMG_0004_small.jpg", **alike),
        shot("IMG_0005.jpg", at("10:05:00"), **alike),
        shot("IMG_0005 (1).jpg", at("10:06:00"), **alike),
        shot("small/IMG_0003.jpg", at("10:00:00")),
    ]
    assert order_of(shots)[1] == [
        ["IMG_E0003", "IMG_0003", "small/IMG_0003"],
        ["IMG_0004-edited", "IMG_0004", "IMG_0004 (1)", "IMG_0004_small"],
        "IMG_0005",
        "IMG_0005 (1)",
    ]
    uploads = [shot(f"{folder}/image.jpg", **alike) for folder in "abc"]
    assert order_of(uploads, by="name")[1] == ["a/image", "b/image", "c/image"]
    sent = [shot(f"WhatsApp Image 2024-05-12 at 10.00.00{end}.jpeg", **alike) for end in ("", " (1)")]
    assert len(order_of(sent, by="name")[1]) == 2


def test_subfolders_are_sorted_by_time_or_by_their_numbers():
    names = ["day 2/1", "day 2/2", "day 10/1"]
    assert kind_and_names([shot(f"{name}.jpg") for name in names]) == ("numbers", names)
    times = zip(names, (14, 10, 12), strict=True)
    timed = [shot(f"{name}.jpg", at(f"{hour}:00:00", UTC)) for name, hour in times]
    assert kind_and_names(timed) == ("taken", ["day 2/2", "day 10/1", "day 2/1"])
    counted = ["100/IMG_9998", "100/IMG_9999", "101/IMG_0001"]
    assert kind_and_names([shot(f"{name}.jpg") for name in counted]) == ("counter", counted)


def test_of_several_paths_the_one_in_the_folder_counts_without_the_mark_of_a_copy():
    picture = shot("IMG_2.jpg")
    paths = ("/other/IMG_0.jpg", "/p/IMG_2 (1).jpg", "/p/IMG_2.jpg")
    shots = [shot("IMG_3.jpg"), picture.model_copy(update={"paths": paths}), shot("IMG_1.jpg")]
    order = row_order(shots, root="/p")
    assert [place[0] for place in order.places] == [shots[2].id, shots[1].id, shots[0].id]
