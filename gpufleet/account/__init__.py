"""Commands in an AWS account beside the engines: preflight, backend of the state, stopped node groups"""
