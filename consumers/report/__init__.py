"""The report of a replay as one page that needs nothing else: tables, and charts as SVG."""

from consumers.report.page import check_report, report_page, write_report

__all__ = ["check_report", "report_page", "write_report"]
