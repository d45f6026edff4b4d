from limner import errors


def test_unknown_names_the_nearest_and_all_choices():
    line = errors.unknown("channel", "captoins", ["labels", "captions"])
    assert line == "unknown channel 'captoins'; did you mean 'captions'? choices: captions, labels"


def test_unknown_without_near_or_choices():
    assert errors.unknown("channel", "zzz", []) == "unknown channel 'zzz'; choices: none"


def test_each_error_is_also_what_a_caller_would_catch():
    for cls in (
        errors.ConfigError,
        errors.DataError,
        errors.ShapeError,
        errors.NumericsError,
        errors.CheckpointError,
    ):
        assert issubclass(cls, errors.LimnerError)
        assert issubclass(cls, ValueError)
    assert issubclass(errors.MissingError, OSError)
