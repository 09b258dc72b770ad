"""S3 buckets."""

from __future__ import annotations

import pytest

from tests.unit.checks.fleets import Judge

BUCKET = "cloud.0.storage.1.bucket"


@pytest.mark.parametrize(
    "name",
    [
        *("xn--data", "sthree-data", "amzn-s3-demo-data"),
        *("data-s3alias", "data--ol-s3", "data--x-s3", "data--table-s3"),
    ],
)
def test_reserved_s3_names_are_refused(judge: Judge, name: str) -> None:
    finding = judge({f"{BUCKET}.name": name}).only("bucket-name")
    assert finding.field == "cloud[0].storage[1].bucket.name"
    assert finding.value == name
    part = name.replace("data", "")
    how = "starts" if name.startswith(part) else "ends"
    assert finding.message == f"bucket name '{name}' {how} with '{part}', which S3 reserves"


def test_bucket_declared_twice_is_refused(judge: Judge) -> None:
    finding = judge({"cloud.0.storage.+": {"name": "more", "bucket": {"name": "atlas-test-data"}}}).only(
        "bucket-repeated"
    )
    assert finding.field == "cloud[0].storage[2].bucket.name"
    assert "use1/data" in finding.message


def test_expiry_after_a_fraction_of_a_day_is_refused(judge: Judge) -> None:
    for written in ("6 h", "36 h"):
        remedy = judge({f"{BUCKET}.expire_after": written}).only("bucket-expiry").remedy
        assert remedy == "write '1 d' or '2 d'"
    assert judge({f"{BUCKET}.expire_after": "30 d"}).rules == set()


@pytest.mark.parametrize("url", ["s3://10.0.0.1/data", "s3://a..b/data"])
def test_import_from_something_other_than_a_bucket_is_refused(judge: Judge, url: str) -> None:
    finding = judge({"cloud.0.storage.0.lustre.import_from": url}).only("import-bucket-name")
    assert finding.value == url


KEY = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
LUSTRE = "cloud.0.storage.0.lustre"
BUCKET_KEY = "cloud.0.storage.1.bucket.kms_key"


def test_kms_key_in_the_region_of_the_site_passes(judge: Judge) -> None:
    assert judge({f"{LUSTRE}.kms_key": KEY, BUCKET_KEY: KEY}).rules == set()


@pytest.mark.parametrize("path", [f"{LUSTRE}.kms_key", BUCKET_KEY])
def test_kms_key_in_another_region_is_refused(judge: Judge, path: str) -> None:
    finding = judge({path: KEY.replace("us-east-1", "eu-west-1")}).only("kms-key")
    assert "us-east-1" in finding.remedy


def test_kms_key_of_a_scratch_file_system_is_refused(judge: Judge) -> None:
    judge({LUSTRE: {"capacity": "2400 GiB", "deployment": "scratch-2", "kms_key": KEY}}).only("kms-key")
