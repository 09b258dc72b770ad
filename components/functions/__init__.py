"""Code of Lambda functions: the standard library and boto3, which AWS's runtime of Python has."""
