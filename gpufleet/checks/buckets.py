"""Buckets: valid unique names, and retention in whole days."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator

from gpufleet.checks.rules import FieldFinding, Fleet, check

PREFIXES = ("xn--", "sthree-", "amzn-s3-demo-")
SUFFIXES = ("-s3alias", "--ol-s3", "--x-s3", "--table-s3")
_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+")


@check("bucket-name")
def bucket_name(fleet: Fleet) -> Iterator[FieldFinding]:
    """S3 reserves some prefixes and suffixes (S3 User Guide, "Bucket naming rules"). The fleet file's model
    checks length and characters."""
    for path, _, _, bucket in fleet.buckets():
        taken = [part for part in PREFIXES if bucket.name.startswith(part)]
        taken += [part for part in SUFFIXES if bucket.name.endswith(part)]
        if taken:
            where = "starts" if taken[0] in PREFIXES else "ends"
            yield FieldFinding(
                (*path, "name"),
                f"bucket name '{bucket.name}' {where} with '{taken[0]}', which S3 reserves",
                "choose another name",
            )


@check("bucket-repeated")
def bucket_repeated(fleet: Fleet) -> Iterator[FieldFinding]:
    """A bucket name is unique in all of AWS (S3 User Guide, "Bucket naming rules")."""
    seen: dict[str, str] = {}
    for path, site, item, bucket in fleet.buckets():
        owner = f"{site.site}/{item.name}"
        if bucket.name in seen:
            yield FieldFinding(
                (*path, "name"),
                f"bucket '{bucket.name}' is also declared by {seen[bucket.name]}",
                "give each bucket its own name, or declare it once",
            )
        seen.setdefault(bucket.name, owner)


@check("bucket-expiry")
def bucket_expiry(fleet: Fleet) -> Iterator[FieldFinding]:
    """S3 counts the age of objects in whole days, at least one (S3 User Guide, "Expiring objects")."""
    for path, _, _, bucket in fleet.buckets():
        if bucket.expire_after is not None and bucket.expire_after.delta % dt.timedelta(days=1):
            days = max(1, bucket.expire_after.delta.days)
            yield FieldFinding(
                (*path, "expire_after"),
                f"objects must expire after whole days, not '{bucket.expire_after}'",
                f"write '{days} d' or '{days + 1} d'",
            )


@check("import-bucket-name")
def import_bucket(fleet: Fleet) -> Iterator[FieldFinding]:
    """`import_from` must name a bucket by S3's rules: no IP address, no two dots in a row."""
    for path, _, _, lustre in fleet.lustre():
        if lustre.import_from is None:
            continue
        name = lustre.import_from.removeprefix("s3://").partition("/")[0]
        if _ADDRESS.fullmatch(name) or ".." in name:
            yield FieldFinding(
                (*path, "import_from"),
                f"'{name}' is not a valid bucket name",
                "write 's3://<bucket>/<prefix>'",
            )


@check("kms-key")
def kms_key(fleet: Fleet) -> Iterator[FieldFinding]:
    """A KMS key works only in its own region. FSx encrypts scratch file systems with a key that FSx manages
    (FSx for Lustre User Guide, "Data encryption")."""
    for path, site, item in fleet.storage():
        for kind in ("lustre", "bucket"):
            store = getattr(item, kind)
            if store is None or store.kms_key is None:
                continue
            region = store.kms_key.split(":")[3]
            if region != site.region:
                yield FieldFinding(
                    (*path, kind, "kms_key"),
                    f"the KMS key of {item.name!r} is in {region}, but site {site.site!r} is in"
                    f" {site.region}",
                    f"use a key of {site.region}",
                )
            if item.lustre is not None and not item.lustre.deployment.startswith("persistent"):
                yield FieldFinding(
                    (*path, kind, "kms_key"),
                    f"{item.lustre.deployment} does not support `kms_key`: FSx encrypts it with a key"
                    " that FSx manages",
                    "leave `kms_key` out, or use `persistent-2` with a throughput",
                )


CHECKS = (bucket_name, bucket_repeated, bucket_expiry, import_bucket, kms_key)
