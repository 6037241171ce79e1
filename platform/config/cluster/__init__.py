"""Status of the deployment's parts for the cluster page."""
