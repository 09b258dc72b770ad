"""Settings of S3 buckets that are resources in pulumi_aws: each has one call to put and one to get."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from gpufleet.lab.aws.provider.handler import Aws, Defaults, Handler
from gpufleet.lab.aws.provider.mapper import Names, tag_list, tags_to_map, to_request
from gpufleet.lab.aws.provider.resources.iam import document, document_problem
from gpufleet.lab.aws.provider.schema import Problem
from gpufleet.lab.aws.provider.waiting import settle
from gpufleet.lab.aws.provider.wire import Props

_BUCKET_NOT_YET = "NoSuchBucket|OperationAborted"


class _Setting(Handler):
    """A setting whose id is its bucket's name."""

    force_new = frozenset({"bucket"})
    delete_before_replace = True
    operation: ClassVar[str]
    """The name in the Put, Get and Delete operations."""

    @abstractmethod
    def parameters(self, aws: Aws, inputs: Props) -> dict[str, Any]:
        """Return the parameters of the Put operation besides the bucket."""

    @abstractmethod
    def outputs(self, answer: dict[str, Any], state: Props) -> Props | None:
        """Return properties from the answer of the Get operation; None if it is not set."""

    def _call(self, aws: Aws, verb: str, bucket: str, **parameters: Any) -> dict[str, Any]:
        answer: dict[str, Any] = getattr(aws.client("s3"), f"{verb}_{self.operation}")(
            Bucket=bucket, **parameters
        )
        return answer

    def _put(self, aws: Aws, inputs: Props) -> None:
        parameters = self.parameters(aws, inputs)
        if inputs.get("expectedBucketOwner"):
            parameters["ExpectedBucketOwner"] = inputs["expectedBucketOwner"]
        settle(
            lambda: self._call(aws, "put", str(inputs["bucket"]), **parameters),
            codes=_BUCKET_NOT_YET,
            timeout_s=5.0,
        )

    def create(self, aws: Aws, inputs: Props) -> str:
        """Put the setting; the bucket may be seconds old."""
        self._put(aws, inputs)
        owner = inputs.get("expectedBucketOwner")
        return f"{inputs['bucket']},{owner}" if owner else str(inputs["bucket"])

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """Return the current setting."""
        bucket = rid.partition(",")[0]
        found = self.outputs(self._call(aws, "get", bucket), state)
        return None if found is None else {"bucket": bucket, **found}

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Put the new setting."""
        self._put(aws, new)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Remove the setting from the bucket."""
        self._call(aws, "delete", rid.partition(",")[0])


class BucketPublicAccessBlock(_Setting):
    """aws.s3.BucketPublicAccessBlock."""

    pulumi_type = "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"
    operation = "public_access_block"
    defaults: ClassVar[Defaults] = {
        "blockPublicAcls": False, "blockPublicPolicy": False, "ignorePublicAcls": False,
        "restrictPublicBuckets": False,
    }  # fmt: skip

    def parameters(self, aws: Aws, inputs: Props) -> dict[str, Any]:
        """Return all four settings."""
        switches = {key[0].upper() + key[1:]: bool(inputs.get(key)) for key in self.defaults}
        return {"PublicAccessBlockConfiguration": switches}

    def outputs(self, answer: dict[str, Any], state: Props) -> Props | None:
        """Return all four settings."""
        found = answer["PublicAccessBlockConfiguration"]
        return {key: bool(found.get(key[0].upper() + key[1:])) for key in self.defaults}

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Remove the block from the bucket, unless the program keeps it."""
        if not state.get("skipDestroy"):
            super().delete(aws, rid, state)


class BucketServerSideEncryptionConfiguration(_Setting):
    """aws.s3.BucketServerSideEncryptionConfiguration."""

    pulumi_type = "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration"
    operation = "bucket_encryption"
    force_new = frozenset({"bucket", "expectedBucketOwner"})
    sets = frozenset({"rules"})
    _names = Names(
        rename={
            "rules.applyServerSideEncryptionByDefault.kmsMasterKeyId": "KMSMasterKeyID",
            "rules.applyServerSideEncryptionByDefault.sseAlgorithm": "SSEAlgorithm",
            "rules.blockedEncryptionTypes": "BlockedEncryptionTypes",
        },
        encode={"rules.blockedEncryptionTypes": lambda values: {"EncryptionType": list(values)}},
        decode={"rules.blockedEncryptionTypes": lambda value: list(value.get("EncryptionType") or ())},
    )

    def parameters(self, aws: Aws, inputs: Props) -> dict[str, Any]:
        """The rules."""
        shape = aws.client("s3").meta.service_model.shape_for("ServerSideEncryptionConfiguration")
        rules = to_request(shape, {"rules": inputs["rules"]}, self._names)
        return {"ServerSideEncryptionConfiguration": rules}

    def outputs(self, answer: dict[str, Any], state: Props) -> Props | None:
        """The rules."""
        return self.decode(answer["ServerSideEncryptionConfiguration"], self._names)


class BucketVersioning(_Setting):
    """aws.s3.BucketVersioning."""

    pulumi_type = "aws:s3/bucketVersioning:BucketVersioning"
    operation = "bucket_versioning"
    force_new = frozenset({"bucket", "expectedBucketOwner"})
    _names = Names(rename={"mfaDelete": "MFADelete"})

    def parameters(self, aws: Aws, inputs: Props) -> dict[str, Any]:
        """Status and MFA."""
        shape = aws.client("s3").meta.service_model.shape_for("VersioningConfiguration")
        mfa = {"MFA": inputs["mfa"]} if inputs.get("mfa") else {}
        return {
            "VersioningConfiguration": to_request(shape, inputs["versioningConfiguration"], self._names),
            **mfa,
        }

    def create(self, aws: Aws, inputs: Props) -> str:
        """Put the setting, except 'never enabled', which AWS cannot express."""
        if inputs["versioningConfiguration"].get("status") == "Disabled":
            return str(inputs["bucket"])
        return super().create(aws, inputs)

    def outputs(self, answer: dict[str, Any], state: Props) -> Props | None:
        """Return status and MFA, both empty for a bucket that never had versioning."""
        status = answer.get("Status", "Disabled")
        found: Props = {"status": status}
        if answer.get("MFADelete"):
            found["mfaDelete"] = answer["MFADelete"]
        return {"versioningConfiguration": found}

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Suspend versioning; existing versions stay."""
        if (state.get("versioningConfiguration") or {}).get("status") == "Enabled":
            bucket = rid.partition(",")[0]
            self._call(aws, "put", bucket, VersioningConfiguration={"Status": "Suspended"})


class BucketOwnershipControls(_Setting):
    """aws.s3.BucketOwnershipControls."""

    pulumi_type = "aws:s3/bucketOwnershipControls:BucketOwnershipControls"
    operation = "bucket_ownership_controls"

    def parameters(self, aws: Aws, inputs: Props) -> dict[str, Any]:
        """The one rule."""
        return {"OwnershipControls": {"Rules": [{"ObjectOwnership": inputs["rule"]["objectOwnership"]}]}}

    def outputs(self, answer: dict[str, Any], state: Props) -> Props | None:
        """The one rule."""
        return {"rule": {"objectOwnership": answer["OwnershipControls"]["Rules"][0]["ObjectOwnership"]}}


class BucketPolicy(_Setting):
    """aws.s3.BucketPolicy."""

    pulumi_type = "aws:s3/bucketPolicy:BucketPolicy"
    operation = "bucket_policy"
    documents = frozenset({"policy"})

    def check(self, inputs: Props) -> list[Problem]:
        """Check that the policy is JSON."""
        return document_problem(inputs, "policy")

    def parameters(self, aws: Aws, inputs: Props) -> dict[str, Any]:
        """The document."""
        return {"Policy": document(inputs["policy"])}

    def outputs(self, answer: dict[str, Any], state: Props) -> Props | None:
        """The document."""
        return {"policy": answer["Policy"]}


class BucketLifecycleConfiguration(_Setting):
    """aws.s3.BucketLifecycleConfiguration."""

    pulumi_type = "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration"
    operation = "bucket_lifecycle_configuration"
    force_new = frozenset({"bucket", "expectedBucketOwner"})
    computed = frozenset({"transitionDefaultMinimumObjectSize"})
    sets = frozenset({"rules.transitions", "rules.noncurrentVersionTransitions"})
    _names = Names(
        rename={"rules.id": "ID"},
        encode={"rules.filter.and.tags": tag_list},
        decode={"rules.filter.and.tags": tags_to_map},
    )

    def parameters(self, aws: Aws, inputs: Props) -> dict[str, Any]:
        """Return the rules; one without a filter applies to every object."""
        shape = aws.client("s3").meta.service_model.shape_for("BucketLifecycleConfiguration")
        rules = [
            rule if rule.get("filter") or rule.get("prefix") else {**rule, "filter": {"prefix": ""}}
            for rule in inputs.get("rules") or ()
        ]
        made: dict[str, Any] = {"LifecycleConfiguration": to_request(shape, {"rules": rules}, self._names)}
        if inputs.get("transitionDefaultMinimumObjectSize"):
            made["TransitionDefaultMinimumObjectSize"] = inputs["transitionDefaultMinimumObjectSize"]
        return made

    def outputs(self, answer: dict[str, Any], state: Props) -> Props | None:
        """The rules."""
        return self.decode(answer, self._names)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete with AWS' different name of this operation."""
        aws.client("s3").delete_bucket_lifecycle(Bucket=rid.partition(",")[0])


HANDLERS = (
    BucketPublicAccessBlock(),
    BucketServerSideEncryptionConfiguration(),
    BucketVersioning(),
    BucketOwnershipControls(),
    BucketPolicy(),
    BucketLifecycleConfiguration(),
)
