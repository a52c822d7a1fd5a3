"""The report of a replay as one self-contained page: tables, and charts as SVG."""

from consumers.report.page import LACKING, check_report, drawn, report_page, write_report

__all__ = ["LACKING", "check_report", "drawn", "report_page", "write_report"]
