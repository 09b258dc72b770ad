"""The sandbox: an emulated AWS on loopback, to try, test and review a fleet without an account.

Start it and use it with any AWS SDK:

    from pathlib import Path
    import boto3
    from gpufleet.lab.aws.daemon import ensure
    from gpufleet.lab.aws.credentials import ACCESS_KEY_ID, SECRET_ACCESS_KEY

    endpoint = ensure(Path(".gpufleet/sandbox"))      # starts the server or finds the running one
    ec2 = boto3.client(
        "ec2", region_name="us-east-1", endpoint_url=endpoint.url,
        aws_access_key_id=ACCESS_KEY_ID, aws_secret_access_key=SECRET_ACCESS_KEY,
    )

`daemon` also has `stop`, `status` and `reset`; `credentials.sandbox_env(endpoint)` gives a child process the
same access by its environment. `backends.install()` adds the operations that moto lacks to moto in this
process, for tests under `moto.mock_aws`.
"""
