"""API routes of the dashboard's downloads."""

from django.urls import path

from frontend.bundles.views import BundleView, ComparisonFileView

urlpatterns = [
    path("runs/<slug:run>/bundle", BundleView.as_view()),
    path("comparisons/<large:comparison>/file", ComparisonFileView.as_view()),
]
