"""What commands do in an AWS account beside the engines: the backend of the state, and stopped node groups"""
