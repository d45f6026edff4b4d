"""The tables of a votes database, the same in SQLite and PostgreSQL.

What must never happen is forbidden here and not only avoided in code: two votes of a rater on an item, and
more raters on an item than places. It opens no connection and makes no decision.
"""

from sqlalchemy import (
    CheckConstraint,
    Column,
    Float,
    ForeignKeyConstraint,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
)

METADATA = MetaData()

STUDIES = Table(
    "limner_studies",
    METADATA,
    Column("sha256", String(64), primary_key=True),
    # Writers of one study queue behind this row where the database itself would let them run at once.
    Column("title", Text, nullable=False),
)
RATERS = Table(
    "limner_raters",
    METADATA,
    Column("study", String(64), nullable=False),
    Column("id", String(64), nullable=False),
    Column("consented", Float, nullable=False),  # seconds since 1970, UTC, as all times here
    PrimaryKeyConstraint("study", "id"),
    ForeignKeyConstraint(["study"], ["limner_studies.sha256"]),
)
# A unit is what is shown on one page: an item, or all steps of a sequence. Places are numbered from 1 to the
# raters wanted; an attention check, which everybody is shown, has places without a number.
PLACES = Table(
    "limner_places",
    METADATA,
    Column("study", String(64), nullable=False),
    Column("unit", String(128), nullable=False),
    Column("rater", String(64), nullable=False),
    Column("place", Integer),
    Column("held", Float, nullable=False),  # when the place was last asked for
    Column("shown", Float, nullable=False),  # when the page was first shown
    Column("voted", Float),  # when it was answered; an answered place is never given away
    PrimaryKeyConstraint("study", "unit", "rater"),
    UniqueConstraint("study", "unit", "place", name="limner_one_rater_per_place"),
    CheckConstraint("place IS NULL OR place >= 1", name="limner_places_from_one"),
    ForeignKeyConstraint(["study", "rater"], ["limner_raters.study", "limner_raters.id"]),
)
VOTES = Table(
    "limner_votes",
    METADATA,
    Column("study", String(64), nullable=False),
    Column("item", String(64), nullable=False),
    Column("rater", String(64), nullable=False),
    Column("unit", String(128), nullable=False),
    Column("answer", Text, nullable=False),  # JSON: a word, or a list of candidates
    Column("shown_order", Text, nullable=False),  # JSON list
    Column("seconds", Float, nullable=False),
    Column("time", Float, nullable=False),
    PrimaryKeyConstraint("study", "item", "rater", name="limner_one_vote_per_rater_and_item"),
    ForeignKeyConstraint(
        ["study", "unit", "rater"], ["limner_places.study", "limner_places.unit", "limner_places.rater"]
    ),
)
