"""Commands as tools of agents, by the Model Context Protocol: what there is, which files they may open, the server."""
