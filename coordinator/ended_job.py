"""The content of the record of a job's end: a control file with the report, and the results as its payload.

The report is plain JSON. Collected results are the job's own pickled data; they are unpickled only when the
checksum of the file and the id of the job hold. Records of releases up to 0.1 were pickles without a
checksum. They are refused: a record is read by the coordinator that replaces its writer, of the same release.
"""

from __future__ import annotations

import pickle

from ..common.errors import CorruptCheckpointError
from ..protocol.checkpoints.control_file import decode_control_file, encode_control_file
from ..protocol.ids import JobId
from ..protocol.task_events import ResultsCollected
from .monitoring.job_report import JobReport
from .monitoring.json_dataclasses import from_plain, to_plain

_REMEDY = (
    "The job has ended, but its outcome is not known. Check its output before you start it again, then "
    "delete the file"
)


def encode_end(job_id: JobId, report: JobReport, waiting: list[ResultsCollected]) -> bytes:
    """The record of the end of a job.

    Args:
        report: How the job ended.
        waiting: Collected results that the driver has not confirmed.
    """
    document = to_plain(report, digits=None)
    return encode_control_file("ended", {"job_id": job_id}, document, pickle.dumps(waiting))


def decode_end(data: bytes, path: str, job_id: JobId) -> tuple[JobReport, list[ResultsCollected]]:
    """The report and the results in a record that was read from `path`.

    Raises:
        CorruptCheckpointError: It is damaged, or of another job.
    """
    file = decode_control_file(data, path, "ended", {"job_id": job_id}, _REMEDY)
    try:
        report = from_plain(JobReport, file.document)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CorruptCheckpointError(
            f"{path} does not hold a job of this release: {error}. {_REMEDY}"
        ) from error
    waiting: list[ResultsCollected] = pickle.loads(file.payload)
    return report, waiting
