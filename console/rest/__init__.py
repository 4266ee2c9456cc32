"""The REST API: paths and documents of Flink's, where the meaning is the same.

`app` puts the routes together, `models` are the documents, `directory` says where jobs are found, `server`
listens. Only this package imports FastAPI, which comes with the extra `console`.
"""
